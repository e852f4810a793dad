"""The routes of create."""
