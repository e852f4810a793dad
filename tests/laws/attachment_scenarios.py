"""Scenarios of volumes that are connected, by attachments and by the old calls."""

from __future__ import annotations

from mooring.volume.attachments.sagas.connect_attachment import CONNECT_ATTACHMENT
from mooring.volume.attachments.sagas.connect_legacy import CONNECT_LEGACY, END_LEGACY
from mooring.volume.attachments.sagas.delete_attachment import DELETE_ATTACHMENT
from tests.crowd import on_volumes
from tests.crowd.case import Ask, Case
from tests.laws import basics
from tests.laws.sites import Scenario, Wants
from tests.laws.told import Event

ATTACHMENTS = [
    Scenario(
        "connect",
        CONNECT_ATTACHMENT,
        basics.a_reservation,
        basics.connect,
        wants=Wants("attachment volume", "attachment volume"),
    ),
    Scenario(
        "reserve connected",
        CONNECT_ATTACHMENT,
        basics.a_volume,
        basics.reserve_connected,
        wants=Wants("volume", "volume"),
    ),
    Scenario(
        "delete attachment",
        DELETE_ATTACHMENT,
        basics.a_connection,
        basics.delete_attachment,
        wants=Wants("attachment volume", "attachment"),
    ),
    Scenario(
        "connect legacy",
        CONNECT_LEGACY,
        basics.a_volume,
        basics.initialize,
        wants=Wants("volume", "volume"),
    ),
    Scenario(
        "terminate legacy",
        END_LEGACY,
        basics.a_legacy_export,
        basics.terminate,
        wants=Wants("volume", ""),
    ),
]
EVENTS = [
    Event("volume.attach", "a connector came; the attachment was completed"),
    Event("volume.detach", "an attachment that was connected is to go; it is gone"),
]
_CONNECTOR = {"connector": on_volumes.CONNECTOR}
_RESERVED = (
    on_volumes.VOLUMES,
    Ask(
        "POST",
        "/attachments",
        {"attachment": {"volume_uuid": "{v#}"}},
        "attachment#",
        "attachment.id",
    ),
)
"""A volume for each client, with an attachment."""
CROWD = [
    on_volumes.each("os-initialize_connection", _CONNECTOR),
    on_volumes.each(
        "os-terminate_connection",
        _CONNECTOR,
        Ask("POST", "/volumes/{v#}/action", {"os-initialize_connection": _CONNECTOR}),
    ),
    Case(
        route="POST /attachments",
        before=(on_volumes.VOLUMES,),
        body={"attachment": {"volume_uuid": "{v#}"}},
        look="/attachments/detail",
        kept="{v#}",
    ),
    Case(
        route="PUT /attachments/{attachment_id}",
        before=_RESERVED,
        path="/attachments/{attachment#}",
        body={"attachment": _CONNECTOR},
    ),
    Case(
        route="POST /attachments/{attachment_id}/action os-complete",
        before=(*_RESERVED, Ask("PUT", "/attachments/{attachment#}", {"attachment": _CONNECTOR})),
        path="/attachments/{attachment#}/action",
        body={"os-complete": None},
        look="/attachments/{attachment#}",
        kept='"attached"',
    ),
    Case(
        route="DELETE /attachments/{attachment_id}",
        before=_RESERVED,
        path="/attachments/{attachment#}",
        look="/attachments",
        gone="{attachment#}",
    ),
]
