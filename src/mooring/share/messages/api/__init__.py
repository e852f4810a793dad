"""The routes of user messages."""
