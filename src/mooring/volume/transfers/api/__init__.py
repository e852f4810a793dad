"""The routes of transfers."""
