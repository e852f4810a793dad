"""Backups of volumes: what is kept of them elsewhere, and volumes made of that again."""
