"""Limits of what one row may hold, and of rows that no quota counts; each with its reason."""

from __future__ import annotations

LABELS = 128
"""Most items of metadata of one volume, snapshot, share or access rule: as many as Nova takes for a
server, where Cinder and Manila have no bound."""

VOLUME_ATTACHMENTS = 256
"""Most attachments of one volume: of a volume of many servers, two each while they move. Cinder has
no bound."""

VOLUME_CONNECTOR_BYTES = 16384
"""Longest connector of a host, as JSON: os-brick's are of a few hundred bytes."""

SHARE_RULES = 1024
"""Most access rules of one share: one for each host of the largest cloud. Manila has no bound."""

SHARE_LOCKS = 64
"""Most resource locks that users place on one share or access rule, none of a rule's own counted.
Manila has no bound."""

NOTIFY_ROWS = 100_000
"""Notifications that wait for one target of one service; beyond them the oldest are dropped."""

IDENTITY_CREDENTIALS = 100
"""Most application credentials of a user: as many as it has keypairs. Keystone's `user_limit`."""

IDENTITY_DESCRIPTION_CHARACTERS = 65535
"""Longest description of an application credential: as of a project."""

UNIFIED_LIMIT = 2**31 - 1
"""Highest unified limit: what Keystone takes. Of images in MiB it is 2 PiB."""

UNIFIED_LIMITS_AT_ONCE = 500
"""Most unified limits of one POST: they are written in one transaction, which holds up others."""

STORE_CHECKED_BYTES = 32 << 20
"""Up to which size a SQLite file is read whole when it is opened. Of a larger one only where it
begins: a start is short."""

AUDIT_FILE_BYTES = 16 << 20
"""When a file of the audit log is full: about 50,000 lines."""

AUDIT_FILES_KEPT = 4
"""Full files of it that are kept beside the one that is written."""

STATE_LOOK_S = 1.0
"""How often a process looks whether its state directory is still there."""
