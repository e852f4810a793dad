"""Where tests write: guests of root's agents run as another user, whom pytest's own lets not pass.

pytest keeps its directories below one for each user, and shuts that to everybody else whenever any
run of tests begins. So each run of root's has a directory of its own beside it. The latest
that a run has left, as one of its tests failed or it was killed, stays for who looks into it.
"""

from __future__ import annotations

import os
import pwd
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.seclusion import EMULATOR, let_emulator_pass
from tests import scratch

_PREFIX = "mooring-tests-"


def choose_base(config: pytest.Config) -> None:
    """Give a run of root's a directory of its own, unless it was given one."""
    if _has_emulator() and config.option.basetemp is None:
        # Below the one that is locked, as pytest makes its own anew.
        config.option.basetemp = str(scratch.make(_PREFIX, keep=1) / "run")


def clear_base(config: pytest.Config, status: int) -> None:
    """Remove the directory of a run that went well."""
    base = config.option.basetemp
    if status == 0 and base is not None and Path(base).parent.name.startswith(_PREFIX):
        shutil.rmtree(Path(base).parent, ignore_errors=True)


def open_to_guests(factory: pytest.TempPathFactory) -> pytest.TempPathFactory:
    """Have what a factory makes passable for guests' emulators."""
    if _has_emulator():
        base = factory.getbasetemp()
        ours = next((one for one in base.parents if one.name.startswith(_PREFIX)), base)
        for one in (base, *base.parents):
            if one.is_relative_to(ours):
                open_directory(one)
        make: Any = factory.mktemp

        def make_passable(*words: Any, **named: Any) -> Path:
            made: Path = make(*words, **named)
            open_directory(made)
            return made

        factory.mktemp = make_passable
    return factory


def open_directory(path: Path) -> None:
    """Let emulators pass through a directory of the tests."""
    if _has_emulator():
        let_emulator_pass(path, EMULATOR)


@cache
def _has_emulator() -> bool:
    if os.geteuid() != 0:
        return False
    try:
        pwd.getpwnam(EMULATOR)
    except KeyError:
        return False
    return True
