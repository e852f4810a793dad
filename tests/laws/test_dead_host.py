"""Law *host dead for ever*: a host falls silent in any call, and is forced down.

Whatever was at work ends without it; when it is back it pays what it owes, and all agrees again.
"""

from __future__ import annotations

import pytest

from mooring.errors import Conflict
from mooring.saga import laws
from tests.laws.meddlers import DeadHost
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import COMPUTE, THIRD, Scenario, Site, Trial
from tests.laws.test_steps import last_way_back
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
ON_HOST = [scenario for scenario in SCENARIOS if scenario.saga.name.startswith("compute.")]
CASES = [f"{scenario.name}/{nth}" for scenario in ON_HOST for nth in range(1, 7)]
SERVER = f"{COMPUTE}/servers/{{server}}/action"
PATIENCE_S = 400.0


def find(case: str) -> tuple[Scenario, int]:
    name, _, nth = case.partition("/")
    return next(one for one in SCENARIOS if one.name == name), int(nth)


def mortal(scenario: Scenario) -> str:
    """Return the host that dies: the server's own one, or where it goes because that is dead."""
    return THIRD if scenario.host_returns else "h1"


async def force(site: Site, host: str, *, down: bool) -> None:
    """Tell the compute service that a host is dead, or lives again."""
    # Without waiting: what is at work may rest for hours before the host is said to be dead.
    listed = await site.ask("GET", f"{COMPUTE}/os-services", user="admin", version="2.53")
    assert listed is not None
    (service,) = [one for one in listed.body["services"] if one["host"] == host]
    path = f"{COMPUTE}/os-services/{service['id']}"
    await site.get("PUT", path, {"forced_down": down}, user="admin", version="2.53")


async def bury_and_revive(trial: Trial, dead: DeadHost, when: str) -> None:
    """Force the dead host down, see that all ends, let it live again, see that all agrees."""
    await trial.cloud.settle(PATIENCE_S)
    await force(trial.site, dead.host, down=True)
    await trial.settle()
    left = [line for line in await trial.complaints() if " is " in line and " at " in line]
    assert left == [], f"{when}: {left}"
    dead.revived = True
    await trial.cloud.cloud.look_at_hosts()
    await force(trial.site, dead.host, down=False)
    await trial.cloud.cloud.look_at_hosts()
    await trial.settle()
    # A guest of which no answer came before its host died is seen now as it is.
    await trial.cloud.look_around()
    await trial.settle()
    if any("guest lacks volume" in line for line in await trial.complaints()):
        # A dead host is switched off: its guests come back by a hard reboot, with their volumes.
        await trial.site.get("POST", SERVER, {"reboot": {"type": "HARD"}})
    await laws.require_peace(trial, f"{when}, and revived")


@pytest.mark.cases(CASES, 3)
async def test_a_dead_host_keeps_nothing_waiting(trials: Trials, case: str) -> None:
    scenario, nth = find(case)
    async with trials.begin(scenario) as trial:
        dead = DeadHost(mortal(scenario), nth)
        trial.site.meddler = dead
        await laws.live_through(trial)
        await bury_and_revive(trial, dead, f"{case}")


@pytest.mark.cases([scenario.name for scenario in ON_HOST], 3)
async def test_an_undo_does_not_wait_for_a_dead_host(trials: Trials, case: str) -> None:
    scenario, _ = find(f"{case}/1")
    outcome = await trials.learn(scenario)
    failing = last_way_back(scenario.saga, outcome.points)
    if not failing:
        return
    async with trials.begin(scenario) as trial:
        dead = DeadHost(mortal(scenario), 10**6)
        trial.site.meddler = dead

        def die() -> Conflict:
            dead.nth = 0
            return Conflict("A law let the host die here.")

        trial.probe.arm(failing, die)
        await laws.live_through(trial)
        await bury_and_revive(trial, dead, case)
