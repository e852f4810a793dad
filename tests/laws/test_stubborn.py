"""Law *stubborn*: a call is refused for good, several times, and somebody has the last word.

The first refusal lets the other operation begin: a deletion, a reset, a detach of what the first
one works on. Or it begins a few calls before, and may be the one that is refused. Later refusals
may meet either of the two, or what they left to a third. Once the call is taken again nothing waits
any more, whoever was refused: each has ended, well or badly, all agrees, and no host keeps what was
on its way.
"""

from __future__ import annotations

import asyncio
from pathlib import PurePath
from typing import Any

import pytest
from msgspec import Struct

from mooring.agent_api import wire
from mooring.agent_api.transport import Response as HostResponse
from mooring.clients.transport import Response
from mooring.compute.servers.states import PAUSED
from mooring.errors import Conflict
from tests.laws import basics
from tests.laws.meetings import furnish
from tests.laws.scenarios import SCENARIOS
from tests.laws.sites import COMPUTE, Call, Scenario, Site, Trial
from tests.laws.test_across import LAST_WORDS, follow_advice, name_things
from tests.laws.trials import Trials

pytestmark = pytest.mark.anyio
PARTS = 4
TIMES = ((1, 0), (4, 0), (4, 3), (4, 5))
"""How often a call is refused: once, or more often than an undo is tried; and how many calls before
that the last word is said. It makes calls of its own, `MORE` at most that count."""
MORE = 12
WORDS = (
    *("delete server", "reset state", "insist on stop", "insist on reboot"),
    *("detach", "delete attachment", "force-delete volume", "reset status"),
    *("delete share", "force-delete share", "reset share"),
)
FROM_DEAD = "evacuation"
TAKEN = "its guest has volume"
"""What an administrator leaves who says of a volume that nobody has it, while its server leaves a
dead host and a host, or a service, refuses something: compute asks for attachments that are gone.
"""
ADVICE = "a hard reboot tries at once"
"""What a server's fault says while a volume is to be taken from it. A paused guest lets go of none,
so that no trying again ends it where the host does not give the volume back to it either.
"""
ON_THE_WAY = ("captures", "brought_backups")
"""What is at a host as long as an operation needs it, and the doctor knows nothing of."""
CHANGES = ("DELETE", "POST", "PUT")
_WORD = b'{"refused": {"message": "A law lets this be refused."}}'


class Stubborn(Struct, frozen=True):
    """Every `PARTS`-th call of a scenario, how often it is refused, and who has the last word."""

    first: Scenario
    times: int
    lead: int
    second: Scenario
    part: int

    def __str__(self) -> str:
        times = f"{self.times} behind {self.lead}" if self.lead else self.times
        return f"{self.first.name}-{times}-{self.second.name}-{self.part}"


def find_cases() -> list[Stubborn]:
    """Return every scenario with every last word about what it works on."""
    held = {one.name: one for one in SCENARIOS}
    found: list[Stubborn] = []
    for first in SCENARIOS:
        grounds = {word: furnish(first, held[word]) for word in WORDS if word != first.name}
        found += [
            Stubborn(ground, times, lead, held[word], part)
            for word, ground in grounds.items()
            if ground is not None
            for times, lead in TIMES
            for part in range(PARTS)
        ]
    return found


class Refusing:
    """Refuses the n-th call, and the same one again, `times` times in all.

    `begins` is set at the first refusal, or at the call that comes `lead` calls before.
    """

    def __init__(self, nth: int, times: int, lead: int) -> None:
        self.nth, self.left, self.count, self.lead = nth, times, 0, lead
        self.what, self.operation, self.begins = "", "", asyncio.Event()

    def explains(self, complaint: str) -> bool:
        """Whether the doctor tells of what was refused: somebody's last word goes on without it.

        A reset leaves an export to its storage. A volume service that does not hear that a guest
        has a volume leaves that attaching. A host to which a server might have gone back keeps what
        it has when it refuses its deletion, which says so. Placement, which does not hear that a
        server left its host, holds its room until it is back.
        """
        if complaint.endswith("its server is at no host"):
            consumer_id = complaint.partition(":")[0].removeprefix("allocation ")
            return self.what == f"DELETE /placement/allocations/{consumer_id}"
        if complaint.endswith("of nothing"):
            server_id = PurePath(complaint.partition(":")[0]).name
            is_deletion = ".destroy_elsewhere:" in self.operation
            return is_deletion and self.what.startswith(f"DELETE /servers/{server_id}")
        if "exported for attachment" in complaint:
            return self.what.endswith(f"/exports/{complaint.split()[5].rstrip(',')}")
        return "whose attachment is attaching" in complaint and self.what.endswith("/action")

    async def pass_on(self, call: Call) -> Any:
        """Refuse it, as a host or as a service, or let it be answered."""
        self.count += 1
        if self.count == self.nth and call.what.startswith(CHANGES):
            self.what, self.operation = call.what, call.operation
        if self.lead and self.count == self.nth - self.lead:
            self.begins.set()
        if call.what != self.what or not self.left:
            return await call.forward()
        self.left -= 1
        self.begins.set()
        headers = {"content-type": "application/json"}
        if call.at:
            return HostResponse(409, wire.body_of(Conflict("A law lets this be refused.")), headers)
        # Services of others say either.
        return Response(409 if self.nth % 2 else 400, _WORD, headers)


async def reboot_what_keeps_volumes(trial: Trial) -> None:
    """Do as the faults of paused servers say that are in ERROR until they have let a volume go."""
    listed = await trial.site.get("GET", f"{COMPUTE}/servers/detail")
    for server in listed["servers"]:
        keeps = server["OS-EXT-STS:power_state"] == PAUSED
        if keeps and server["status"] == "ERROR" and ADVICE in server["fault"]["message"]:
            await trial.cloud.look_at_hosts()
            mine = Site.beside(trial.site, server=server["id"])
            answer = await basics.act_on_server(mine, "reboot", {"type": "HARD"})
            assert answer.status == 202, answer.text
            await trial.settle()


@pytest.mark.cases(find_cases(), 3)
async def test_nothing_waits_for_what_was_refused_before_the_last_word(
    trials: Trials, case: Stubborn
) -> None:
    last = await trials.count_calls(case.first) + (MORE if case.lead else 0)
    for nth in range(1 + case.part + case.lead, 1 + last, PARTS):
        async with trials.begin(case.first) as trial:
            site = await name_things(trial.site)
            trial.site.meddler = call = Refusing(nth, case.times, case.lead)
            first = asyncio.create_task(trial.act())
            if not await trial.cloud.until(call.begins, first):
                await first
                continue
            second = asyncio.create_task(case.second.act(site))
            await asyncio.gather(first, second)
            await trial.settle()
            trial.site.meddler = None
            answers = [trial.answer, second.result()]
            if case.first.comes_again:
                # What it left the loop finds again.
                await trial.act()
            # A word of compute's that was refused is waited for as long as a settling looks ahead.
            await trial.settle()
            assert all(one is None or one.status < 500 for one in answers), (call.what, answers)
            if case.second.saga.name in LAST_WORDS:
                await follow_advice(trial, site)
            await reboot_what_keeps_volumes(trial)
            found = [one for one in await trial.complaints() if not call.explains(one)]
            if case.second.saga.name in LAST_WORDS and case.first.name == FROM_DEAD:
                found = [one for one in found if TAKEN not in one]
            seen = await trial.snapshot()
            found += [f"{kind}: {row}" for kind in ON_THE_WAY for row in seen.get(kind, ())]
            assert not found, (call.what, found)
