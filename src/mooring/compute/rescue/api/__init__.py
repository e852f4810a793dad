"""The routes of rescue."""
