"""The routes of backends."""
