"""Measures everything and prints one table: `make bench`, or `python -m bench [PART ...]`.

`--against COMMIT` measures that commit too, on this machine and in the same hour, and shows how
many times as much we take.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from bench.machine import RESULTS, flush_ms, scratch
from bench.rows import Row, render

CHECKOUT = Path(__file__).parents[1]
PARTS: tuple[str, ...] = (
    "ready",
    "attach",
    "rebuild",
    "listing",
    "steps",
    "recovery",
    "source_lines",
)


def measure(checkout: Path, parts: list[str]) -> list[Row]:
    """Run parts of the bench in a checkout, each in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'src'}:{checkout}"}
    rows: list[Row] = []
    for part in parts:
        print(f"bench: {part} ...", file=sys.stderr)
        done = subprocess.run(
            [sys.executable, "-m", f"bench.{part}"],
            cwd=checkout,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        rows += [msgspec.json.decode(line, type=Row) for line in done.stdout.splitlines()]
        if done.returncode:
            print(f"bench: {part} failed; its figures are missing", file=sys.stderr)
    return rows


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


def measure_commit(commit: str, parts: list[str]) -> list[Row]:
    """Measure another commit, with its own bench, in a worktree that goes afterwards."""
    with scratch() as directory:
        tree = directory / "tree"
        git("worktree", "add", "--detach", str(tree), commit)
        try:
            return measure(tree, [part for part in parts if (tree / f"bench/{part}.py").exists()])
        finally:
            git("worktree", "remove", "--force", str(tree))


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--against", metavar="COMMIT", help="measure that commit too")
    given = parser.parse_args()
    parts: list[str] = given.parts or [*PARTS]
    with scratch() as directory:
        flush = flush_ms(directory)
    rows = measure(CHECKOUT, parts)
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} CPUs, load {load:.1f}, fdatasync {flush:.2f} ms (median)\n")
    print(render(rows))
    keep(rows, git("rev-parse", "--short", "HEAD"), flush)
    if given.against:
        print(f"\nbeside {given.against}:")
        compare(rows, measure_commit(given.against, parts))


if __name__ == "__main__":
    main()
