"""Volumes that go to another pool, and to another type."""
