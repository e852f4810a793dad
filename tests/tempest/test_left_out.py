"""What is not run of Tempest's tests stands in the documentation, with the reason of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tempest.left_out import LEFT_OUT, LeftOut

_HEADING = """\
# What is not run of Tempest's own API tests

Of identity, images, servers and volumes; made by `make golden` from `tests/tempest/left_out.py`, by
which `make tempest` leaves them out. Names are below `tempest.api`, and regular expressions where
they end in a test.

| why | tests |
|---|---|
"""


def _row(one: LeftOut) -> str:
    names: list[str] = []
    for case, tests in one.tests.items():
        short = case.removeprefix("tempest.api.")
        told = "" if tuple(tests) == (".*",) else ": " + ", ".join(f"`{test}`" for test in tests)
        names.append(f"`{short}`{told}")
    return f"| {one.why} | {'; '.join(names)} |\n".replace("(freeze|thaw)", r"(freeze\|thaw)")


@pytest.mark.golden
def test_the_page_of_what_is_left_out_is_up_to_date(golden: Callable[[str, str], None]) -> None:
    golden("docs/tempest-left-out.md", _HEADING + "".join(map(_row, LEFT_OUT)))


def test_no_test_is_left_out_for_two_reasons() -> None:
    named = [
        (case, test) for one in LEFT_OUT for case, tests in one.tests.items() for test in tests
    ]
    assert len(named) == len(set(named))
