"""The routes of access rules."""
