"""The volume service's writing routes of backups behind which no operation stands."""

from __future__ import annotations

from tests.crowd.case import Case
from tests.crowd.on_volumes import BACKUP, BACKUP_ALL, BACKUP_AT, VOLUME

CASES = [
    Case(
        route=f"PUT {BACKUP_ALL}",
        before=(VOLUME, BACKUP),
        path=BACKUP_AT,
        body={"backup": {"name": "{case}-#"}},
        look=BACKUP_AT,
        one='"{case}-#"',
    ),
    Case(
        route=f"POST {BACKUP_ALL}/action os-reset_status",
        before=(VOLUME, BACKUP),
        path=f"{BACKUP_AT}/action",
        body={"os-reset_status": {"status": "error"}},
        look=BACKUP_AT,
        kept='"error"',
    ),
]
