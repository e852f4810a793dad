"""Guests that stand still while QEMU begins to copy a disk: not a moment longer, whoever dies."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

pytest.importorskip("libvirt", reason="libvirt's Python binding is not installed")

import libvirt as binding

from mooring.agent.libvirt import copy_starts, inactive, memory, states
from mooring.agent.libvirt.domain_xml import NAME_PREFIX
from mooring.errors import Conflict
from mooring.probe import NoProbe

libvirt: Any = binding
SERVER_ID = "5f3c6a4e-3f1b-4c38-9d55-0d5d1f0a6c11"
NOTE = "urn:mooring:standing:1"
XML = f"""
<domain type='test'>
  <name>{NAME_PREFIX}{SERVER_ID}</name>
  <uuid>{SERVER_ID}</uuid>
  <memory>1024</memory>
  <os><type>hvm</type></os>
</domain>
"""


class EndedError(Exception):
    """What ends a copy before it has begun."""


class Copied:
    """A guest of which libvirt says how far the copy of its disk is, 0 for none; notes its end."""

    def __init__(self, domain: Any, end: int) -> None:
        self._domain, self._end = domain, end
        self.ended: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._domain, name)

    def blockJobInfo(self, _: str, __: int) -> dict[str, int]:  # noqa: N802  (libvirt calls it so)
        if not self._end:
            return {}
        return {"type": libvirt.VIR_DOMAIN_BLOCK_JOB_TYPE_COPY, "cur": 0, "end": self._end}

    def blockJobAbort(self, device: str, _: int) -> None:  # noqa: N802  (libvirt calls it so)
        self.ended.append((device, states.state_of(self._domain)))


@pytest.fixture
def domain() -> Generator[Any]:
    """A running guest of libvirt's own test driver, which knows no block jobs."""
    opened = libvirt.open("test:///default")
    made = opened.defineXML(XML)
    made.create()
    yield Copied(made, 0)
    opened.close()


def begin(domain: Any) -> tuple[str, bool]:
    """Begin a copy that does not come about; return what was said of the guest meanwhile."""
    seen: list[tuple[str, bool]] = []
    passed: list[str] = []

    def start() -> None:
        seen.append((states.state_of(domain), NOTE in domain.XMLDesc(0)))
        raise EndedError

    with pytest.raises(EndedError):
        copy_starts.begin(domain, "vdb", start, passed.append)
    assert passed == ["standing"]
    return seen[0]


def leave(domain: Any) -> None:
    """Leave a guest as an agent does that dies at the start of a copy."""
    kind, live = libvirt.VIR_DOMAIN_METADATA_ELEMENT, libvirt.VIR_DOMAIN_AFFECT_LIVE
    domain.setMetadata(kind, "<standing disk='vdb'/>", "standing", NOTE, live)
    domain.suspend()


def told(domain: Any) -> tuple[str, bool]:
    return states.state_of(domain), NOTE in domain.XMLDesc(0)


def test_a_guest_stands_still_while_a_copy_begins_and_goes_on_when_that_fails(domain: Any) -> None:
    assert begin(domain) == ("paused", True)
    assert told(domain) == ("running", False)


def test_a_guest_that_its_user_paused_stays_so_and_its_disks_are_held(
    domain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = list[Any]()
    monkeypatch.setattr(inactive, "hold", held.append)
    memory.pause(domain)
    assert begin(domain) == ("paused", False)
    assert told(domain) == ("paused", False)
    assert held == [domain]


def test_the_agent_after_one_that_died_lets_its_guest_go_on(domain: Any) -> None:
    leave(domain)
    assert copy_starts.find_standing(domain.connect()) == [SERVER_ID]
    copy_starts.settle(domain)
    assert told(domain) == ("running", False)


def test_so_does_the_next_copy_and_the_end_of_one(domain: Any) -> None:
    leave(domain)
    assert begin(domain) == ("paused", True)
    leave(domain)
    copy_starts.settle(domain)
    assert told(domain) == ("running", False)


def test_a_guest_that_is_paused_after_its_agent_died_stands_still_for_its_user(
    domain: Any,
) -> None:
    leave(domain)
    memory.pause(domain)
    assert copy_starts.find_standing(domain.connect()) == []
    copy_starts.settle(domain)
    assert told(domain) == ("paused", False)


@pytest.mark.parametrize(("end", "ended"), [(1, [("vdb", "paused")]), (1 << 30, [])])
def test_a_copy_that_its_agent_left_goes_on_only_if_it_misses_nothing(
    domain: Any, monkeypatch: pytest.MonkeyPatch, end: int, ended: list[tuple[str, str]]
) -> None:

    def forget(_: Any, __: str) -> None:
        """The test driver's guest has no disks to be named."""

    monkeypatch.setattr(copy_starts.swapped, "forget", forget)
    leave(domain)
    copied = Copied(domain, end)
    copy_starts.settle(copied)
    assert (copied.ended, told(domain)) == (ended, ("running", False))


def test_a_guest_stands_still_no_longer_than_its_copy_may_take_to_begin(
    domain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_starts, "AGENT_COPY_BEGIN_S", 0.05)
    copied = Copied(domain, 1)
    with pytest.raises(Conflict, match="did not begin to copy vdb"):
        copy_starts.begin(copied, "vdb", lambda: None, NoProbe().at)
    assert (copied.ended, told(domain)) == ([("vdb", "paused")], ("running", False))


def test_a_guest_that_cannot_be_held_still_has_no_note_of_it(domain: Any) -> None:
    class Refusing(Copied):
        def suspend(self) -> None:
            raise EndedError

    with pytest.raises(EndedError):
        copy_starts.begin(Refusing(domain, 1), "vdb", lambda: None, NoProbe().at)
    assert told(domain) == ("running", False)
