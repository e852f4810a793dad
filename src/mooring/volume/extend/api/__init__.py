"""The routes of extend."""
