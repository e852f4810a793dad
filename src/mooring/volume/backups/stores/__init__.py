"""Where the data of backups are."""
