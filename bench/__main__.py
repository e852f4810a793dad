"""Measures everything and prints one table: `make bench`, or `python -m bench [PART ...]`.

`--against COMMIT` measures that commit too and shows how many times as much we take. A shared
machine may be half as fast again in the next minute, so each part is measured in turns, ours,
theirs, theirs, ours, and the least counts: what came beside only adds. A part that the other one
did not have yet is measured there by ours, over what it had to measure with.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.machine import RESULTS, flush_ms, scratch
from bench.rows import Row, render

CHECKOUT = Path(__file__).parents[1]
PARTS: tuple[str, ...] = (
    "ready",
    "attach",
    "operations",
    "rebuild",
    "moves",
    "evacuate",
    "shelve",
    "swap",
    "shares",
    "listing",
    "crowded",
    "doctor",
    "steps",
    "silent",
    "recovery",
    "serves",
    "source_lines",
)
ALSO = {"detach": "attach"}
"""What is measured along with another part, and by whose name it is asked for."""


def chosen(asked: list[str]) -> list[str]:
    """Return the parts to run, each once; all without any. Raises SystemExit for no part."""
    parts = list(dict.fromkeys(ALSO.get(name, name) for name in asked))
    if unknown := [name for name in parts if name not in PARTS]:
        raise SystemExit(f"bench: no part is called {unknown[0]}; there are {', '.join(PARTS)}.")
    return parts or [*PARTS]


def measure(checkout: Path, part: str) -> list[Row]:
    """Run a part of the bench in a checkout, in a process of its own."""
    print(f"bench: {part} ...", file=sys.stderr)
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{part}"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": f"{checkout / 'src'}:{checkout}"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"bench: {part} failed; its figures are missing", file=sys.stderr)
    return list(rows_of(done.stdout))


def rows_of(output: str) -> Iterator[Row]:
    """Give the rows that a part wrote; what else it wrote, as a log, is passed on."""
    for line in output.splitlines():
        if line.startswith('{"what":'):
            yield msgspec.json.decode(line, type=Row)
        else:
            print(line, file=sys.stderr)


def least(first: list[Row], second: list[Row]) -> list[Row]:
    """Return of each figure the smaller one."""
    others = {row.what: row for row in second}
    return [min(row, others.get(row.what, row), key=lambda one: one.measured) for row in first]


def keep(rows: list[Row], commit: str, flush: float) -> None:
    """Add the rows to the results, one JSON line each."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with (RESULTS / "results.jsonl").open("ab") as file:
        for row in rows:
            line = {"at": at, "commit": commit, "flush_ms": flush, **msgspec.to_builtins(row)}
            file.write(msgspec.json.encode(line) + b"\n")


def compare(rows: list[Row], before: list[Row]) -> None:
    """Print how many times as much we take as another commit did."""
    known = {row.what: row for row in before}
    for row in rows:
        old = known.get(row.what)
        if old is not None and old.measured:
            ratio = row.measured / old.measured
            print(f"{row.what}: {ratio:.2f} x ({old.measured:.4g} {old.unit} before)")


def git(*arguments: str) -> str:
    """Run git in the checkout and return what it prints."""
    done = subprocess.run(
        ["git", *arguments], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()


@contextmanager
def checkout_of(commit: str) -> Generator[Path]:
    """Give a worktree of a commit, with its own bench, that goes afterwards."""
    with scratch() as directory:
        tree = directory / "tree"
        git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def lend(part: str, tree: Path) -> None:
    """Give another checkout a part of the bench that it has not."""
    ours, theirs = (checkout / f"bench/{part}.py" for checkout in (CHECKOUT, tree))
    if not theirs.exists():
        shutil.copyfile(ours, theirs)


def measure_both(commit: str, parts: list[str]) -> tuple[list[Row], list[Row]]:
    """Measure ours and another commit in turns; return the least of each."""
    ours: list[Row] = []
    theirs: list[Row] = []
    with checkout_of(commit) as tree:
        for part in parts:
            lend(part, tree)
            turns = [measure(checkout, part) for checkout in (CHECKOUT, tree, tree, CHECKOUT)]
            ours += least(turns[0], turns[3])
            theirs += least(turns[1], turns[2])
    return ours, theirs


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--against", metavar="COMMIT", help="measure that commit too")
    given = parser.parse_args()
    parts = chosen(given.parts)
    with scratch() as directory:
        flush = flush_ms(directory)
    theirs: list[Row] = []
    if given.against:
        rows, theirs = measure_both(given.against, parts)
    else:
        rows = [row for part in parts for row in measure(CHECKOUT, part)]
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} CPUs, load {load:.1f}, fdatasync {flush:.2f} ms (median)\n")
    print(render(rows))
    keep(rows, git("rev-parse", "--short", "HEAD"), flush)
    if given.against:
        print(f"\nbeside {given.against}:")
        compare(rows, theirs)


if __name__ == "__main__":
    main()
