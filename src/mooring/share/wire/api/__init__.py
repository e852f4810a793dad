"""The routes of what clients write and read."""
