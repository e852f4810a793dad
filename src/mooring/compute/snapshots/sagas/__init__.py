"""The sagas of snapshots."""
