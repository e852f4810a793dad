"""Scenarios of servers that are switched on and off, started anew, and said to be in a state."""

from __future__ import annotations

from mooring.compute.power.sagas.power import (
    INSIST_ON_REBOOT,
    INSIST_ON_STOP,
    REBOOT_SERVER,
    START_SERVER,
    STOP_SERVER,
)
from mooring.compute.power.sagas.reset_state import RESET_STATE
from tests.crowd import on_servers
from tests.laws import basics
from tests.laws.sites import SERVER_OR_NONE, Scenario, Wants
from tests.laws.told import WITH_ERROR, Story

_TOLD = ("faults", "instance_actions")
_ON_SERVER = Wants("server volume", "server")
POWER = [
    Scenario("stop", STOP_SERVER, basics.a_server_with_volume, basics.stop, wants=_ON_SERVER),
    Scenario("start", START_SERVER, basics.a_stopped_server, basics.start, wants=_ON_SERVER),
    Scenario("reboot", REBOOT_SERVER, basics.a_server_with_volume, basics.reboot, wants=_ON_SERVER),
    Scenario(
        "hard reboot",
        REBOOT_SERVER,
        basics.a_server_with_volume,
        basics.reboot_hard,
        wants=_ON_SERVER,
    ),
    Scenario(
        "insist on reboot",
        INSIST_ON_REBOOT,
        basics.a_server_with_volume,
        basics.insist_on_reboot,
        _TOLD,
        wants=_ON_SERVER,
    ),
    Scenario(
        "reset state",
        RESET_STATE,
        basics.a_server,
        basics.reset_state,
        wants=Wants("server", "server"),
    ),
    Scenario(
        "reset a deleted server",
        RESET_STATE,
        basics.a_server_with_volume,
        basics.reset_deleting,
        (*_TOLD, *SERVER_OR_NONE),
        wants=_ON_SERVER,
    ),
]
EVENTS = [
    Story("instance.power_on", "started", about="server_id", sagas=(START_SERVER,)),
    Story(
        "instance.power_off",
        "stopped",
        about="server_id",
        sagas=(STOP_SERVER, INSIST_ON_STOP),
    ),
    Story(
        "instance.reboot",
        "rebooted",
        about="server_id",
        sagas=(REBOOT_SERVER, INSIST_ON_REBOOT),
        phases=WITH_ERROR,
    ),
]
CROWD = [
    on_servers.case("os-stop", shows='"SHUTOFF"', alone=True),
    on_servers.case("os-start", None, on_servers.act("os-stop"), shows='"ACTIVE"', alone=True),
    on_servers.case("reboot", {"type": "SOFT"}, shows='"ACTIVE"'),
    on_servers.case("os-resetState", {"state": "error"}, shows='"ERROR"'),
]
