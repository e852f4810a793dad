"""Recorded answers of programs: written down beside real ones, and given again where there is none.

A tape has, for each test, what was asked and answered, in its order. A driver that asks anything
else, or in another order, fails: record it anew then (`--golden`), and read what has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mooring.agent.run import Budget, Output, Programs

_TAPES = Path(__file__).with_name("tapes")


class Recorder:
    """Passes programs on, and keeps what they answer. `names`: what differs from run to run."""

    def __init__(self, programs: Programs, names: Mapping[str, str]) -> None:
        self._programs, self._names = programs, names
        self._kept: list[dict[str, Any]] = []

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        """Run a program."""
        output = await self._programs.run(argv, budget, operation_key=operation_key)
        kept = {"argv": [self._hide(word) for word in argv]}
        told = {"code": output.code, "out": self._hide(output.out), "err": self._hide(output.err)}
        self._kept.append(kept | {key: value for key, value in told.items() if value})
        return output

    def save(self, tape: str, test: str) -> None:
        """Write down what was answered in a test."""
        path = _TAPES / f"{tape}.json"
        path.parent.mkdir(exist_ok=True)
        known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
        known[test] = self._kept
        lines = ",\n".join(
            f"{json.dumps(name)}: [\n"
            + ",\n".join(f"  {json.dumps(one)}" for one in known[name])
            + "\n]"
            for name in sorted(known)
        )
        path.write_text(f"{{\n{lines}\n}}\n", "utf-8")

    def _hide(self, text: str) -> str:
        for name, value in self._names.items():
            text = text.replace(value, f"<{name}>")
        return text


class Player:
    """Answers as a tape says."""

    def __init__(self, tape: str, test: str, names: Mapping[str, str]) -> None:
        path = _TAPES / f"{tape}.json"
        tapes = json.loads(path.read_text("utf-8"))
        assert test in tapes, f"{path} has nothing of {test}: record it anew"
        self._left: list[dict[str, Any]] = tapes[test]
        self._names = names

    async def run(
        self, argv: Sequence[str], budget: Budget | None = None, *, operation_key: str = ""
    ) -> Output:
        """Answer what was answered to the same program."""
        del budget, operation_key
        assert self._left, f"nothing was asked any more, and now {' '.join(argv)}"
        known = self._left.pop(0)
        asked = [self._show(word) for word in known["argv"]]
        assert list(argv) == asked, f"{' '.join(argv)} was asked, not {' '.join(asked)}"
        out, err = known.get("out", ""), known.get("err", "")
        return Output(known.get("code", 0), self._show(out), self._show(err))

    def check_end(self) -> None:
        """Fail when more was asked once than now."""
        assert not self._left, f"nobody asked {self._left[0]['argv']}"

    def _show(self, text: str) -> str:
        for name, value in self._names.items():
            text = text.replace(f"<{name}>", value)
        return text
