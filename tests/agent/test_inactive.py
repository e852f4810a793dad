"""What QEMU is asked so that it holds the disks of a guest that arrived standing still.

With a real QEMU: tests/contract/test_moves.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from mooring.errors import Unavailable

libvirt: Any = pytest.importorskip("libvirt")
REFUSED = {"error": {"class": "GenericError", "desc": "NBD server not running"}}
BLOCKS = [
    {"device": "", "inserted": {"node-name": "libvirt-2-format", "ro": False}},
    {"device": "", "inserted": {"node-name": "libvirt-1-format", "ro": True}},
    {"device": "cd0"},
]


class Domain:
    """A domain, by what its state is."""

    def __init__(self, state: str) -> None:
        self._state = getattr(libvirt, f"VIR_DOMAIN_{state}")

    def state(self) -> list[int]:
        """What libvirt says of it."""
        return [self._state, 0]

    def UUIDString(self) -> str:  # noqa: N802  (libvirt calls it so)
        """Its server."""
        return "s1"


class Monitor:
    """A QEMU with some commands, which notes what changes something."""

    def __init__(self, *commands: str, refusal: dict[str, Any] | None = None) -> None:
        self.commands, self.refusal = commands, refusal or REFUSED
        self.told = list[tuple[str, dict[str, Any]]]()

    def answer(self, _: Domain, asked: str, __: int) -> str:
        """Answer as QEMU does."""
        request = json.loads(asked)
        command = request["execute"]
        if command == "query-commands":
            return json.dumps({"return": [{"name": name} for name in self.commands]})
        if command == "query-block":
            return json.dumps({"return": BLOCKS})
        self.told.append((command, request["arguments"]))
        return json.dumps(self.refusal if command == "block-export-add" else {"return": {}})


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Callable[[Monitor, str], None]:
    from mooring.agent.libvirt import inactive

    def ask(monitor: Monitor, state: str) -> None:
        monkeypatch.setattr("libvirt_qemu.qemuMonitorCommand", monitor.answer)
        inactive.hold(Domain(state))

    return ask


def test_a_qemu_that_has_a_word_for_it_is_told_so(hold: Callable[[Monitor, str], None]) -> None:
    monitor = Monitor("query-block", "blockdev-set-active")
    hold(monitor, "PAUSED")
    assert monitor.told == [("blockdev-set-active", {"active": True})]


def test_another_one_holds_what_it_writes_to_as_it_is_to_export_it_and_cannot(
    hold: Callable[[Monitor, str], None],
) -> None:
    monitor = Monitor("query-block")
    hold(monitor, "PAUSED")
    [(command, wanted)] = monitor.told
    assert (command, wanted["node-name"], wanted["writable"]) == (
        "block-export-add",
        "libvirt-2-format",
        False,
    )


def test_a_guest_that_runs_is_left_alone(hold: Callable[[Monitor, str], None]) -> None:
    monitor = Monitor("query-block")
    hold(monitor, "RUNNING")
    assert monitor.told == []


def test_an_export_that_could_be_is_ended_at_once(hold: Callable[[Monitor, str], None]) -> None:
    monitor = Monitor("query-block", refusal={"return": {}})
    hold(monitor, "PAUSED")
    (_, wanted), (command, ended) = monitor.told
    assert (command, ended["id"]) == ("block-export-del", wanted["id"])


def test_whatever_else_it_says_is_told(hold: Callable[[Monitor, str], None]) -> None:
    said = {"error": {"class": "GenericError", "desc": "Cannot find device"}}
    with pytest.raises(Unavailable, match="openstack server unpause"):
        hold(Monitor("query-block", refusal=said), "PAUSED")
