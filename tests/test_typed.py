"""Typed values from JSON: in many threads at once, and told when they do not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mooring import typed

ROUNDS = 200
THREADS = "tests.first_use"


def test_a_type_may_be_used_for_the_first_time_by_many_threads_at_once() -> None:
    # A process of its own, because what this is about ends the process.
    command = [sys.executable, "-X", "faulthandler", "-m", THREADS, str(ROUNDS)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"{ROUNDS} types\n"), done.stderr


class Point(msgspec.Struct):
    x: int
    y: int = 0


def test_json_and_messages_and_plain_values_become_typed() -> None:
    assert typed.decode(b'{"x": 1}', Point) == Point(1)
    assert typed.decode('[{"x": 1, "y": 2}]', list[Point]) == [Point(1, 2)]
    assert typed.unpack(msgspec.msgpack.encode(Point(3)), Point) == Point(3)
    assert typed.convert({"x": 4}, Point) == Point(4)
    assert typed.convert({"x": "5"}, Point, strict=False) == Point(5)


def test_what_does_not_fit_is_told() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.x"):
        typed.decode(b'{"x": "1"}', Point)
    with pytest.raises(msgspec.ValidationError, match=r"\$\.x"):
        typed.convert({"x": "1"}, Point)
    with pytest.raises(msgspec.ValidationError):
        typed.unpack(msgspec.msgpack.encode({}), Point)
    with pytest.raises(msgspec.DecodeError):
        typed.decode(b"{", Point)
