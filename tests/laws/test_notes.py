"""Law *notes of each release*: a saga begun by an earlier release is ended by this one.

The notes of every step that works outside are kept for each release, with names for their ids. In
a replay a saga stops before that step, gets the old notes with its own ids, and is taken over.
Where today's saga is a later version, it stops before the step that the old one is part of now, and
gets the old version and the old name of the step, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from mooring.saga import laws
from mooring.saga.define import Saga
from mooring.saga.laws import Crash
from mooring.saga.tables import SagaRow
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import Scenario, Trial
from tests.laws.test_steps import SAGAS
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
FOLDER = Path(__file__).parent / "notes"
RELEASES = sorted(path.name for path in FOLDER.iterdir()) if FOLDER.is_dir() else []
NOW = version("mooring")
"""The folder of what this release writes; the others are of releases before, by their commits."""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_OWN = frozenset({"action_id", "project_id", "user_id"})


def stops_of(saga: Saga[Any]) -> list[str]:
    """Return the points before the steps of a saga that work outside: there it may be found."""
    saved = [point for point in laws.points_of(saga) if point.endswith("/forward/saved")]
    return [point.replace("/saved", "/before") for point in saved]


def name_ids(value: Any, names: Mapping[str, str]) -> Any:
    """Return notes in which every id is shown by its name, or as an id."""
    roles = {identity: f"<{role}>" for role, identity in names.items()}
    if isinstance(value, dict):
        return {k: "<own>" if k in _OWN else name_ids(v, names) for k, v in _items(value)}
    if isinstance(value, list):
        return [name_ids(item, names) for item in _list(value)]
    if isinstance(value, str):
        return _ID.sub(lambda found: roles.get(found.group(), "<id>"), value)
    return value


def give_ids(kept: Any, living: Any) -> Any:
    """Return kept notes with the ids that the living ones have in the same places."""
    if isinstance(kept, dict):
        there = dict(_items(living)) if isinstance(living, dict) else {}
        return {key: give_ids(value, there.get(key)) for key, value in _items(kept)}
    if isinstance(kept, list):
        others = _list(living) if isinstance(living, list) else []
        return [give_ids(*pair) for pair in zip(_list(kept), others, strict=True)]
    return living if isinstance(kept, str) and "<" in kept else kept


def _items(value: Any) -> Any:
    return value.items()


def _list(value: Any) -> list[Any]:
    return value


def find_today(saga: Saga[Any], point: str, release: str) -> str:
    """Return the stop at which a point of a release is found today."""
    if saga.former is None or release == NOW:
        return point
    name, step, rest = point.split("/", 2)
    return f"{name}/{saga.former.steps.get(step, step)}/{rest}"


def mark_of(saga: Saga[Any], point: str, release: str) -> dict[str, Any]:
    """Return what a bookmark of a release says beside its notes, where that is not as today."""
    if saga.former is None or release == NOW:
        return {}
    return {"version": saga.version - 1, "step": point.split("/")[1]}


async def act_and_settle(trial: Trial) -> None:
    """Let a trial run to its end."""
    await trial.act()
    await trial.settle()


async def stop_before(trial: Trial, point: str) -> tuple[str, Any]:
    """Let a trial die at a point; return id and notes of the saga that stands there."""
    trial.probe.arm(point, Crash)
    with pytest.raises(Crash):
        await act_and_settle(trial)
    saga = trial.scenario.saga
    query = select(SagaRow.id, SagaRow.notes).where(SagaRow.name == saga.name)
    newest = query.where(SagaRow.state != "ended").order_by(SagaRow.created_at.desc())
    store = trial.cloud.cloud.stores[saga.name.partition(".")[0]]
    row = await store.read(lambda tx: tx.execute(newest).first())
    assert row is not None
    return row[0], row[1]


async def passing(trials: Trials, saga: Saga[Any]) -> dict[str, Scenario]:
    """Return for each stop of a saga the first scenario that comes by."""
    found: dict[str, Scenario] = {}
    for scenario in (one for one in SCENARIOS if one.saga is saga):
        passed = (await trials.learn(scenario)).points
        for point in stops_of(saga):
            if point in passed:
                found.setdefault(point, scenario)
    return found


@pytest.mark.cases(SAGAS, 2)
async def test_the_notes_of_this_release_are_kept(
    trials: Trials, case: Saga[Any], golden: Callable[[str, str], None]
) -> None:
    kept, root = dict[str, Any](), "<state>"
    for point, scenario in (await passing(trials, case)).items():
        async with trials.begin(scenario) as trial:
            _, notes = await stop_before(trial, point)
            kept[point] = name_ids(notes, trial.site.names)
            root = str(trial.cloud.settings.state_path)
    path = f"tests/laws/notes/{NOW}/{case.name}.json"
    # Locations of simulated exports are below the directory of the trials.
    text = json.dumps(kept, indent=1, sort_keys=True).replace(root, "<state>")
    golden(path, text + "\n")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.cases(SAGAS, 2)
async def test_what_a_release_began_this_one_ends(
    trials: Trials, case: Saga[Any], release: str
) -> None:
    file = FOLDER / release / f"{case.name}.json"
    kept: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    scenarios = await passing(trials, case)
    for point, notes in kept.items():
        today = find_today(case, point, release)
        scenario = scenarios[today]
        outcome = await trials.learn(scenario)
        async with trials.begin(scenario) as trial:
            saga_id, living = await stop_before(trial, today)
            old = update(SagaRow).where(SagaRow.id == saga_id)
            old = old.values(notes=give_ids(notes, living), **mark_of(case, point, release))
            store = trial.cloud.cloud.stores[case.name.partition(".")[0]]
            await store.write(lambda tx, old=old: tx.execute(old) and None)
            await trial.restart()
            await trial.settle()
            await laws.require_peace(trial, f"{release} at {point}")
            await laws.require_end(trial, case, outcome, f"{release} at {point}")


def test_every_stop_of_every_release_is_still_known() -> None:
    for file in FOLDER.glob("*/*.json"):
        [saga] = [one for one in SAGAS if one.name == file.stem]
        kept = json.loads(file.read_text("utf-8"))
        stops = {find_today(saga, point, file.parent.name) for point in kept}
        assert stops <= set(stops_of(saga)), file.name
