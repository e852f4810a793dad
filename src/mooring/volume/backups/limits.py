"""Limits of backups alone."""

from __future__ import annotations

BACKUP_UNDO_ATTEMPTS = 12
"""How often the data of a backup that failed is removed before its volume is free: 3 min."""
