"""The revisions of every service's database: `common` (sagas, fence) and a chain of its own.

A revision adds; what is no longer used goes one release later, so that the release before can run
on the same database during an upgrade. There is no way down: restore a backup.
"""
