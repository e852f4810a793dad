"""The routes of shelve."""
