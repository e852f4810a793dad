"""The routes of events."""
