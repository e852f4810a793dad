"""The routes of volumes that go to another pool, or to another type."""
