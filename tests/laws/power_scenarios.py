"""Scenarios of servers that are switched on and off, started anew, and said to be in a state."""

from __future__ import annotations

from mooring.compute.power.sagas.power import (
    INSIST_ON_REBOOT,
    REBOOT_SERVER,
    START_SERVER,
    STOP_SERVER,
)
from mooring.compute.power.sagas.reset_state import RESET_STATE
from tests.laws import basics
from tests.laws.sites import SERVER_OR_NONE, Scenario

_TOLD = ("faults", "instance_actions")
POWER = [
    Scenario("stop", STOP_SERVER, basics.a_server_with_volume, basics.stop),
    Scenario("start", START_SERVER, basics.a_stopped_server, basics.start),
    Scenario("reboot", REBOOT_SERVER, basics.a_server_with_volume, basics.reboot),
    Scenario("hard reboot", REBOOT_SERVER, basics.a_server_with_volume, basics.reboot_hard),
    Scenario(
        "insist on reboot",
        INSIST_ON_REBOOT,
        basics.a_server_with_volume,
        basics.insist_on_reboot,
        _TOLD,
    ),
    Scenario("reset state", RESET_STATE, basics.a_server, basics.reset_state),
    Scenario(
        "reset a deleted server",
        RESET_STATE,
        basics.a_server_with_volume,
        basics.reset_deleting,
        (*_TOLD, *SERVER_OR_NONE),
    ),
]
