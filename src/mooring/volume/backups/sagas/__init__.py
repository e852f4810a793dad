"""How backups are made, brought back and removed."""
