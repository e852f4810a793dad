"""Times as clients write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mooring.errors import Invalid
from mooring.web import words


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-01-01T05:00:00", 5),
        (" 2026-01-01T05:00:00Z ", 5),
        ("2026-01-01T05:00:00+02:00", 3),
        ("2026-01-01", 0),
    ],
)
def test_a_time_is_in_utc(text: str, hour: int) -> None:
    found = words.instant(text)
    assert (found, found.tzinfo) == (datetime(2026, 1, 1, hour, tzinfo=UTC), UTC)


@pytest.mark.parametrize(
    "text",
    ["", "x", "2026-13-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"],
)
def test_what_is_no_time_or_beyond_the_calendar_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        words.instant(text)


def test_a_filter_by_pairs_is_read_in_both_spellings() -> None:
    assert words.pairs("{'a': 1}", "metadata") == {"a": "1"}
    assert words.pairs('{"a": "b"}', "metadata") == {"a": "b"}


@pytest.mark.parametrize("text", ["", "[1]", "{'a'", "{1: 0x" + "f" * 4000 + "}"])
def test_what_is_no_pairs_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is no dictionary"):
        words.pairs(text, "metadata")
