"""The routes of flavors."""
