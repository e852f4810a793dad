"""Guests that stand still while QEMU begins to copy a disk: not a moment longer, whoever dies."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

pytest.importorskip("libvirt", reason="libvirt's Python binding is not installed")

import libvirt as binding

from mooring.agent.libvirt import copy_starts, memory, states
from mooring.agent.libvirt.domain_xml import NAME_PREFIX

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


@pytest.fixture
def domain() -> Generator[Any]:
    """A running guest of libvirt's own test driver, which has no block jobs."""
    opened = libvirt.open("test:///default")
    made = opened.defineXML(XML)
    made.create()
    yield made
    opened.close()


def begin(domain: Any) -> tuple[str, bool]:
    """Begin a copy that does not come about; return what was said of the guest meanwhile."""
    seen: list[tuple[str, bool]] = []

    def start() -> None:
        seen.append((states.state_of(domain), NOTE in domain.XMLDesc(0)))
        raise EndedError

    with pytest.raises(EndedError):
        copy_starts.begin(domain, "vdb", start)
    return seen[0]


def leave(domain: Any) -> None:
    """Leave a guest as an agent does that dies at the start of a copy."""
    kind, live = libvirt.VIR_DOMAIN_METADATA_ELEMENT, libvirt.VIR_DOMAIN_AFFECT_LIVE
    domain.setMetadata(kind, "<standing/>", "standing", NOTE, live)
    domain.suspend()


def told(domain: Any) -> tuple[str, bool]:
    return states.state_of(domain), NOTE in domain.XMLDesc(0)


def test_a_guest_stands_still_while_a_copy_begins_and_goes_on_when_that_fails(domain: Any) -> None:
    assert begin(domain) == ("paused", True)
    assert told(domain) == ("running", False)


def test_a_guest_that_its_user_paused_stays_so(domain: Any) -> None:
    memory.pause(domain)
    assert begin(domain) == ("paused", False)
    assert told(domain) == ("paused", False)


def test_the_agent_after_one_that_died_lets_its_guest_go_on(domain: Any) -> None:
    leave(domain)
    copy_starts.let_all_go_on(domain.connect())
    assert told(domain) == ("running", False)


def test_so_does_the_next_copy_and_the_end_of_one(domain: Any) -> None:
    leave(domain)
    assert begin(domain) == ("paused", True)
    leave(domain)
    copy_starts.let_go_on(domain)
    assert told(domain) == ("running", False)


def test_a_guest_that_is_paused_after_its_agent_died_stands_still_for_its_user(
    domain: Any,
) -> None:
    leave(domain)
    memory.pause(domain)
    copy_starts.let_all_go_on(domain.connect())
    assert told(domain) == ("paused", False)
