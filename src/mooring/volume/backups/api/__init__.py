"""The routes of backups."""
