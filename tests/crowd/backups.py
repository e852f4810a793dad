"""The volume service's writing routes of backups."""

from __future__ import annotations

from tests.crowd.case import Ask, Case
from tests.crowd.volume import VOLUME, VOLUMES

_ALL, _AT = "/backups/{backup_id}", "/backups/{b}"
_BACKUP = Ask("POST", "/backups", {"backup": {"volume_id": "{v}"}}, "b", "backup.id")
_EACH = Ask("POST", "/backups", {"backup": {"volume_id": "{v#}"}}, "b#", "backup.id")
CASES = [
    Case(
        route="POST /backups",
        before=(VOLUMES,),
        body={"backup": {"volume_id": "{v#}", "name": "{case}-new#"}},
        look="/backups",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"PUT {_ALL}",
        before=(VOLUME, _BACKUP),
        path=_AT,
        body={"backup": {"name": "{case}-#"}},
        look=_AT,
        one='"{case}-#"',
    ),
    Case(
        route=f"POST {_ALL}/restore",
        before=(VOLUME, _BACKUP),
        path=f"{_AT}/restore",
        body={"restore": {"name": "{case}-back#"}},
        alone=True,
        look="/volumes",
        kept='"{case}-back#"',
    ),
    Case(
        route=f"POST {_ALL}/action os-reset_status",
        before=(VOLUME, _BACKUP),
        path=f"{_AT}/action",
        body={"os-reset_status": {"status": "error"}},
        look=_AT,
        kept='"error"',
    ),
    Case(
        route=f"POST {_ALL}/action os-force_delete",
        before=(VOLUMES, _EACH),
        path="/backups/{b#}/action",
        body={"os-force_delete": None},
        look="/backups",
        gone="{b#}",
    ),
    Case(
        route="POST /backups/import_record",
        body={"backup-record": {"backup_service": "s", "backup_url": "u"}},
        refused=True,
    ),
    Case(
        route=f"DELETE {_ALL}",
        before=(VOLUMES, _EACH),
        path="/backups/{b#}",
        look="/backups",
        gone="{b#}",
    ),
]
