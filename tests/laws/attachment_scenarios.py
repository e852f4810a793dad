"""Scenarios of volumes that are connected, by attachments and by the old calls."""

from __future__ import annotations

from mooring.volume.attachments.sagas.connect_attachment import CONNECT_ATTACHMENT
from mooring.volume.attachments.sagas.connect_legacy import CONNECT_LEGACY, END_LEGACY
from mooring.volume.attachments.sagas.delete_attachment import DELETE_ATTACHMENT
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
