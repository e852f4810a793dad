"""What libvirt says of guests, by its own driver for tests, which needs neither daemon nor root."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

libvirt: Any = pytest.importorskip("libvirt")


@pytest.fixture
def connection() -> Generator[Any]:
    """A host of libvirt's test driver, which has one domain."""
    opened = libvirt.open("test:///default")
    yield opened
    opened.close()


def test_a_guest_that_goes_after_it_was_found_is_no_guest(connection: Any) -> None:
    from mooring.agent.libvirt import states

    [domain] = connection.listAllDomains(0)
    domain.destroy()
    domain.undefine()
    assert states.show_if_there(domain) is None


def test_what_else_libvirt_has_against_an_answer_is_said(connection: Any) -> None:
    from mooring.agent.libvirt import states

    class Refusing:
        """A domain of which libvirt says nothing, for another reason."""

        def XMLDesc(self, _: int) -> str:  # noqa: N802  (libvirt calls it so)
            return connection.networkLookupByName("none").XMLDesc(0)

    with pytest.raises(libvirt.libvirtError, match="Network not found"):
        states.show_if_there(Refusing())
