"""The routes of rebuild."""
