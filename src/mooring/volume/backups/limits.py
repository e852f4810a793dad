"""Limits of backups alone."""

from __future__ import annotations

BACKUP_UNDO_ATTEMPTS = 12
"""How often data or copy of a backup that failed are removed before its volume is free: 3 min."""
S3_THREADS = 4
"""How many requests a store of S3 has at work at a time, and as many more while it removes."""
S3_TRIES = 2
"""How often a request to S3 is repeated before the operation rests."""
S3_SEND_S = 30.0
"""Seconds in which a piece must be sent, 140 KB/s at least; an answer may take as long again."""
S3_READ_S = 300.0
"""Seconds in which an object must have come."""
S3_LOOK_S = 1.0
"""Seconds for the look at S3 when a process starts, which does not wait for it."""
S3_PAGE = 1000
"""How many objects are removed before more are listed."""
MANIFEST_BYTES = 64 << 20
"""Most bytes of a manifest: one of 1 TiB, the largest backup, has 58 MiB at most."""
