"""The compute service's routes of shares, which change one server that is off."""

from __future__ import annotations

from tests.crowd.case import Ask, Case

_NEW = {"name": "{case}", "imageRef": "{image}", "flavorRef": "{flavor}", "networks": "none"}
SERVER = Ask("POST", "/servers", {"server": _NEW}, "s", "server.id")
STOPPED = Ask("POST", "/servers/{s}/action", {"os-stop": None})
FOLDERS = Ask(
    "POST",
    "/share/v2/shares",
    {"share": {"share_proto": "NFS", "size": 1, "name": "{case}#"}},
    "folder#",
    "share.id",
)
_AT, _ALL = "/servers/{s}/shares", "/servers/{server_id}/shares"
ADDED = Ask("POST", _AT, {"share": {"share_id": "{folder#}"}})
CASES = [
    Case(
        route=f"POST {_ALL}",
        before=(SERVER, STOPPED, FOLDERS),
        path=_AT,
        body={"share": {"share_id": "{folder#}"}},
        look=_AT,
        kept="{folder#}",
    ),
    Case(
        route=f"DELETE {_ALL}/{{share_id}}",
        before=(SERVER, STOPPED, FOLDERS, ADDED),
        path=f"{_AT}/{{folder#}}",
        look=_AT,
        gone="{folder#}",
    ),
]
