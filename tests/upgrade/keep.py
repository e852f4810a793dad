"""Keep what a release leaves when it dies in the middle of an operation: `kept/*.json.xz`.

Run in a checkout of the release, with its own source and tests on the path; it goes through every
saga of compute and volume, lets it die at each of its points, and writes one state directory for
each that left something else behind than the points before:

    PYTHONPATH=src:. python <here>/keep.py kept/<release>-compute.json.xz compute
    PYTHONPATH=src:. python <here>/keep.py kept/<release>-volume.json.xz volume

Kept are the rows of every database (the hosts' too) and the small files. The directory's own path
is kept as `<state>`, and what was sealed is kept open, because connection data names paths.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import lzma
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from mooring.errors import Bug, Conflict
from mooring.saga.laws import Crash
from mooring.saga.seal import Sealer, load_sealer
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import Scenario, Trial
from tests.laws.test_steps import POINTS, Point, last_way_back, last_way_forward
from tests.laws.trials import Trials

PLACE = "<state>"
_WAL = ("-wal", "-shm", ".lock")
_VARYING = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32,}\b|\breq-[0-9a-f-]+"
    r"|\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+00:00)?|\b\d{9,}(?:\.\d+)?\b|\br-[0-9a-z]{8}\b"
)
_SECRETS = ("passwords.json", "clouds.yaml", "token-keys", "seal.key")
_HISTORY = "saga_history"


class Keeper:
    """What was kept so far: each file once, and for each state which files it has."""

    def __init__(self) -> None:
        self._files: dict[str, Any] = {}
        self._states: list[dict[str, Any]] = []
        self._seen: set[str] = set()

    async def keep(self, trial: Trial, point: str) -> None:
        """Keep the state directory of a trial that died at a point, unless one like it is kept."""
        root = trial.cloud.settings.state_path
        files = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*"))}
        files = {n: p for n, p in files.items() if p.is_file() and not n.endswith(_WAL)}
        sealer = load_sealer(root / "seal.key")
        read = {name: _read(path, str(root), sealer) for name, path in files.items()}
        looks = _looks(trial.scenario, read, trial.site.names)
        if looks in self._seen:
            return
        self._seen.add(looks)
        self._states.append(
            {
                "saga": trial.scenario.saga.name,
                "point": point,
                "scenario": trial.scenario.name,
                "names": trial.site.names,
                "now": trial.cloud.clock.now().isoformat(),
                "desk": await _desk(trial),
                "files": {name: self._file(what) for name, what in read.items()},
            }
        )

    def _file(self, what: Any) -> str:
        key = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:12]
        self._files[key] = what
        return key

    @property
    def count(self) -> int:
        """How many states were kept so far."""
        return len(self._states)

    def write(self, path: Path) -> None:
        """Write all that was kept."""
        text = json.dumps({"files": self._files, "states": self._states}, separators=(",", ":"))
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(text.encode(), filters=filters))


def _read(path: Path, root: str, sealer: Sealer) -> Any:
    if path.suffix == ".sqlite":
        return _read_database(path, root, sealer)
    return {"file": _portable(path.read_bytes(), root, sealer)}


def _read_database(path: Path, root: str, sealer: Sealer) -> dict[str, Any]:
    with closing(sqlite3.connect(path)) as database:
        (number,) = database.execute("PRAGMA user_version").fetchone()
        made = database.execute("SELECT name, sql, type FROM sqlite_master").fetchall()
        tables = [name for name, _, kind in made if kind == "table"]
        rows = {name: _rows(database, name) for name in tables}
    return {
        "number": number,
        "schema": [sql for name, sql, _ in made if sql and not name.startswith("sqlite_")],
        "rows": {
            name: [[_portable(value, root, sealer) for value in row] for row in found]
            for name, found in rows.items()
            if found
        },
    }


def _rows(database: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    query = f'SELECT * FROM "{table}"'  # noqa: S608 (the name is the database's own)
    return database.execute(query).fetchall()


def _portable(value: Any, root: str, sealer: Sealer) -> Any:
    """Return a value as JSON, without the path of the directory it comes from."""
    if isinstance(value, str):
        return value.replace(root, PLACE)
    if not isinstance(value, bytes):
        return value
    try:
        return {"sealed": sealer.open(value).decode().replace(root, PLACE)}
    except (Bug, ValueError):
        pass
    try:
        return {"bytes": value.decode().replace(root, PLACE)}
    except UnicodeDecodeError:
        return {"hex": value.hex()}


def _looks(scenario: Scenario, read: dict[str, Any], names: dict[str, str]) -> str:
    """Return what tells one state from another: ids, times and histories do not."""
    told = {
        name: {table: rows for table, rows in what.get("rows", {}).items() if table != _HISTORY}
        for name, what in read.items()
        if name not in _SECRETS
    }
    text = json.dumps(told, sort_keys=True)
    for role, identity in names.items():
        text = text.replace(identity, f"<{role}>")
    return scenario.saga.name + _VARYING.sub("*", text)


async def _desk(trial: Trial) -> dict[str, str]:
    """Return the statuses of the snapshots that a stand-in for the volume service holds."""
    if trial.site.stand_in is None:
        return {}
    held = await trial.site.stand_in.see(trial.site)
    return dict(line.split(" ", 1) for line in held.get("snapshots", []))


async def _keep_all(path: Path, service: str) -> None:
    trials, keeper = Trials(), Keeper()
    # What is saved behind a step is what the next one finds.
    points = [point for point in POINTS if point.name.startswith(f"{service}.")]
    try:
        for point in (point for point in points if not point.name.endswith("/saved")):
            scenarios = [one for one in SCENARIOS if one.saga is point.saga]
            for scenario in scenarios:
                if await _keep_one(trials, keeper, scenario, point):
                    break
            sys.stderr.write(f"{point}: {keeper.count} kept\n")
    finally:
        trials.remove()
    keeper.write(path)


async def _keep_one(trials: Trials, keeper: Keeper, scenario: Scenario, point: Point) -> bool:
    """Let a scenario die at a point and keep what it left; tell whether it passes there at all."""
    outcome = await trials.learn(scenario)
    failing = ""
    if "/forward/" not in point.name:
        is_back = "/back/" in point.name
        failing = (last_way_back if is_back else last_way_forward)(scenario.saga, outcome.points)
    if not failing and point.name not in outcome.points:
        return False
    async with trials.begin(scenario) as trial:
        if failing:
            trial.probe.arm(failing, lambda: Conflict("It fails."))
        trial.probe.arm(point.name, Crash)
        try:
            await trial.act()
            await trial.settle()
        except Crash:
            await keeper.keep(trial, point.name)
            return True
    return False


if __name__ == "__main__":
    asyncio.run(_keep_all(Path(sys.argv[1]), sys.argv[2]))
