"""The routes of volumes."""
