"""What each operation calls, and what becomes of it when one of the calls is refused for good.

The pages of docs/flows are written by this: a picture of the calls in order, and a row for each
call that changes something. So each row was tried, and the doctor found nothing after it; a short
run draws some of the pages anew, and tries one row of each.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from sqlalchemy import select

from mooring.saga.tables import SagaRow
from tests.laws.pictures import Arrow, Watcher, draw, mermaid
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import BY_OLD_CALLS, COMPUTE, VOLUME, Scenario, Trial
from tests.laws.trials import Trials
from tests.sampling import choose

pytestmark = pytest.mark.anyio
CHECKOUT = Path(__file__).parents[2]
DRAWN, TRIED = 12, 1
"""Pages that are drawn, and rows of each of them that are tried, unless all are asked for."""


class Page(Struct, frozen=True):
    """A page of docs/flows: its name, its title, what the user asks for, and the scenario."""

    name: str
    title: str
    request: str
    scenario: str

    def __str__(self) -> str:
        return self.name


PAGES = [
    Page(
        "attach",
        "Attach a volume to a server (spec 001.2)",
        "POST /servers/{server}/os-volume_attachments",
        "attach",
    ),
    Page(
        "detach",
        "Detach a volume (spec 001.3)",
        "DELETE /servers/{server}/os-volume_attachments/{volume}",
        "detach",
    ),
    Page(
        "attach-away",
        "Attach a volume to a server that was put away (spec 001.7)",
        "POST /servers/{server}/os-volume_attachments",
        "attach while away",
    ),
    Page(
        "detach-away",
        "Detach a volume from a server that was put away (spec 001.7)",
        "DELETE /servers/{server}/os-volume_attachments/{data}",
        "detach while away",
    ),
    Page(
        "attach-old",
        "Attach a volume by the old calls (spec 001.1)",
        "POST /servers/{server}/os-volume_attachments",
        f"attach{BY_OLD_CALLS}",
    ),
    Page(
        "detach-old",
        "Detach a volume that came by the old calls (spec 001.1)",
        "DELETE /servers/{server}/os-volume_attachments/{old}",
        "detach old and new",
    ),
    Page(
        "swap",
        "Swap a volume for a larger one (spec 001.8)",
        "PUT /servers/{server}/os-volume_attachments/{volume}",
        "swap for a larger one",
    ),
    Page(
        "migrate-volume",
        "Migrate a volume under its guest (spec 001.8)",
        "POST /volumes/{volume}/action (os-migrate_volume)",
        "migrate volume in use",
    ),
    Page(
        "restore-backup",
        "Restore a backup to its volume",
        "POST /backups/{backup}/restore",
        "restore backup",
    ),
    Page(
        "attach-share",
        "Attach a share to a server",
        "POST /servers/{server}/shares",
        "attach share",
    ),
    Page(
        "detach-share",
        "Detach a share",
        "DELETE /servers/{server}/shares/{share}",
        "detach share",
    ),
    Page(
        "start-share",
        "Start a server with a share",
        "POST /servers/{server}/action (os-start)",
        "start with a share",
    ),
    Page("boot", "Boot from a volume (spec 001.2)", "POST /servers", "create from volume"),
    Page("boot-new", "Boot from new volumes", "POST /servers", "create with new volumes"),
    Page(
        "boot-elsewhere",
        "Boot from a volume on the next host, after one that cannot",
        "POST /servers",
        "create elsewhere",
    ),
    Page("delete", "Delete a server with volumes", "DELETE /servers/{server}", "delete server"),
    Page(
        "hard-reboot",
        "Reboot a server hard (spec 001.9)",
        "POST /servers/{server}/action (reboot)",
        "hard reboot",
    ),
    Page(
        "rebuild",
        "Rebuild a server that boots from a volume (spec 002.2)",
        "POST /servers/{server}/action (rebuild)",
        "rebuild a volume",
    ),
    Page(
        "live-migrate",
        "Migrate a server live (spec 001.4)",
        "POST /servers/{server}/action (os-migrateLive)",
        "live migration",
    ),
    Page(
        "live-migrate-back",
        "Migrate a server live, in vain: the way back of a failure or an abort (spec 001.4)",
        "POST /servers/{server}/action (os-migrateLive)",
        "live migration in vain",
    ),
    Page(
        "live-migrate-disk",
        "Migrate a server live with its root disk (spec 001.4)",
        "POST /servers/{server}/action (os-migrateLive)",
        "block migration",
    ),
    Page(
        "cold-migrate",
        "Migrate a server cold (spec 001.5)",
        "POST /servers/{server}/action (migrate)",
        "cold migration",
    ),
    Page(
        "cold-migrate-elsewhere",
        "Migrate a server cold to the next host, after one that cannot (spec 001.5)",
        "POST /servers/{server}/action (migrate)",
        "cold migration elsewhere",
    ),
    Page(
        "cold-migrate-disk",
        "Migrate a server cold with its root disk (spec 001.5, ADR 8)",
        "POST /servers/{server}/action (migrate)",
        "local migration",
    ),
    Page(
        "shelve",
        "Put a server away (spec 001.7)",
        "POST /servers/{server}/action (shelve)",
        "shelve",
    ),
    Page(
        "shelve-disk",
        "Put a server away with its root disk (spec 001.7)",
        "POST /servers/{server}/action (shelve)",
        "shelve a disk at once",
    ),
    Page(
        "unshelve",
        "Give a server that was put away a host again (spec 001.7)",
        "POST /servers/{server}/action (unshelve)",
        "unshelve",
    ),
    Page(
        "evacuate",
        "Evacuate a server whose host is dead (spec 001.6)",
        "POST /servers/{server}/action (evacuate)",
        "evacuation",
    ),
    Page(
        "evacuate-disk",
        "Evacuate a server whose root disk is lost with its host (spec 001.6)",
        "POST /servers/{server}/action (evacuate)",
        "local evacuation",
    ),
    Page(
        "resize-disk",
        "Resize a server whose root disk grows on its host (ADR 9)",
        "POST /servers/{server}/action (resize)",
        "local resize",
    ),
    Page(
        "confirm",
        "Confirm a migration or resize (spec 001.5)",
        "POST /servers/{server}/action (confirmResize)",
        "confirm",
    ),
    Page(
        "revert",
        "Revert a migration or resize (spec 001.5)",
        "POST /servers/{server}/action (revertResize)",
        "revert",
    ),
    Page(
        "cold-migrate-share",
        "Migrate a server cold with a share (spec 003)",
        "POST /servers/{server}/action (migrate)",
        "shared migration",
    ),
    Page(
        "confirm-share",
        "Confirm the migration of a server with a share (spec 003)",
        "POST /servers/{server}/action (confirmResize)",
        "shared confirm",
    ),
    Page(
        "revert-share",
        "Revert the migration of a server with a share (spec 003)",
        "POST /servers/{server}/action (revertResize)",
        "shared revert",
    ),
    Page(
        "extend",
        "Grow a volume under a guest (spec 000)",
        "POST /volumes/{volume}/action (os-extend)",
        "extend under a guest",
    ),
]


class End(Struct, frozen=True):
    """How a flow ended, as a user sees it."""

    answer: int
    things: tuple[str, ...]


@pytest.mark.cases(PAGES, DRAWN)
async def test_each_call_that_is_refused_for_good_leaves_what_its_page_says(
    trials: Trials,
    case: Page,
    golden: Callable[[str, str], None],
    pytestconfig: pytest.Config,
) -> None:
    [scenario] = [one for one in SCENARIOS if one.name == case.scenario]
    before = await find_state(trials, scenario)
    arrows, done = await run(trials, scenario)
    file = f"docs/flows/{case.name}.md"
    changing = [(number, arrow.step) for number, arrow in enumerate(arrows, 2) if arrow.step]
    tried = choose(pytestconfig, file, changing, TRIED)
    rows: list[str] = []
    for nth, (number, step) in enumerate(changing, start=1):
        row = f"| {number} | `{step}` | "
        if (number, step) in tried:
            _, end = await run(trials, scenario, refused=nth)
            rows.append(f"{row}{tell(end, before, done)} |")
        else:
            rows.append(find_row(file, row))
    golden(file, "\n".join([*_head(case, arrows, done), *rows, ""]))


def find_row(file: str, begin: str) -> str:
    """Return the row of a page that begins so, for one that is not tried this time."""
    lines = (CHECKOUT / file).read_text(encoding="utf-8").splitlines()
    return next((line for line in lines if line.startswith(begin)), f"{begin}missing |")


async def find_state(trials: Trials, scenario: Scenario) -> tuple[str, ...]:
    """Return what a user sees before a flow."""
    async with trials.begin(scenario) as trial:
        return await look(trial)


async def run(trials: Trials, scenario: Scenario, refused: int = 0) -> tuple[list[Arrow], End]:
    """Run a flow in which the n-th call that changes something is refused; none with 0."""
    async with trials.begin(scenario) as trial:
        watcher = Watcher(refused)
        trial.site.meddler = watcher
        await trial.act()
        await trial.settle()
        assert trial.answer is not None
        trial.site.meddler = None
        assert await trial.complaints() == []
        sagas: dict[str, str] = {}
        for store in trial.cloud.cloud.stores.values():
            query = select(SagaRow.id, SagaRow.name)
            sagas |= await store.read(lambda tx, query=query: dict(tx.execute(query).all()))
        arrows = draw(watcher.calls, trial.site.names, sagas)
        return arrows, End(trial.answer.status, await look(trial))


async def look(trial: Trial) -> tuple[str, ...]:
    """Return servers, volumes, shares and more, with their states, as administrators see them."""
    names = {identity: role for role, identity in trial.site.names.items()}

    async def ask(path: str, version: str) -> Any:
        answer = await trial.cloud.ask("GET", path, user="admin", version=version)
        return answer.body

    servers = (await ask(f"{COMPUTE}/servers/detail?all_tenants=1", "2.90"))["servers"]
    volumes = (await ask(f"{VOLUME}/volumes/detail?all_tenants=1", "3.67"))["volumes"]
    told = [
        f"{names.get(one['id'], 'server')} {one['status']}"
        + (f" on {one['OS-EXT-SRV-ATTR:host']}" if one["OS-EXT-SRV-ATTR:host"] else "")
        for one in servers
    ]
    for one in volumes:
        name = names.get(one["id"], "new volume")
        # Of one that is migrated its status says as little as of one that stays.
        pool = one["os-vol-host-attr:host"].partition("@")[0] if one["migration_status"] else ""
        where = f" on {pool}, migration {one['migration_status']}" if pool else ""
        told.append(f"{name} {one['status']}, {one['size']} GiB{where}")
    for kind in ("snapshots", "backups"):
        listed = (await ask(f"{VOLUME}/{kind}/detail?all_tenants=1", "3.67"))[kind]
        told += [f"{names.get(one['id'], f'new {kind[:-1]}')} {one['status']}" for one in listed]
    for one in servers:
        listed = (await ask(f"{COMPUTE}/servers/{one['id']}/shares", "2.97"))["shares"]
        told += [f"{names.get(each['share_id'], 'share')} {each['status']}" for each in listed]
    return tuple(sorted(told))


def tell(end: End, before: tuple[str, ...], done: End) -> str:
    """Say how a flow ended that was disturbed."""
    if end.things == done.things:
        told = "it is done all the same"
    elif end.things == before:
        told = "all is as it was"
    else:
        told = "; ".join(end.things) or "nothing is left"
    return told if end.answer == done.answer else f"{told}; answered {end.answer}"


def _head(page: Page, arrows: list[Arrow], done: End) -> list[str]:
    return [
        f"# {page.title}",
        "",
        "Written by `make golden` from what the services call (tests/laws/test_pictures.py).",
        "Dotted arrows look, others change something. `h1`, `h3`, `h5` have servers, `s1` disks.",
        "",
        "```mermaid",
        *mermaid(page.request, arrows),
        "```",
        "",
        f"The end: answered {done.answer}; {'; '.join(done.things) or 'nothing is left'}.",
        "",
        "What becomes of it when one of its calls is refused for good:",
        "",
        "| call | step | then |",
        "|---|---|---|",
    ]
