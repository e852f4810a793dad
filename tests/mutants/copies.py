"""Faults seeded in copies of disks between hosts: keys, digests, what counts as come."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STRANGERS = "tests/agent/test_copy_strangers.py"
COPIES, BLOCKS = "tests/agent/test_copies.py", "tests/agent/test_blocks.py"
CONTRACT = "tests/contract/test_copies.py"
PACE = "tests/agent/test_copy_pace.py"

MUTANTS = [
    Mutant(
        "what bounds the copies of a host is not read where they are given",
        "agent/door.py",
        "        self.pace = Pace(settings.copy_mib_per_s * 1024**2)\n",
        "        self.pace = Pace(0)\n",
        PACE,
    ),
    Mutant(
        "what bounds the copies of a host does not reach its agent",
        "agent_process.py",
        "        copy_mib_per_s=settings.copy_mib_per_s,\n",
        "",
        PACE,
    ),
    Mutant(
        "any key opens an offer",
        "agent/offers.py",
        "            is_one |= hmac.compare_digest(digest, known)\n",
        "            is_one |= len(digest) == len(known)\n",
        STRANGERS,
        "asks_for_anything",
    ),
    Mutant(
        "who says nothing at the door keeps his place",
        "agent/door.py",
        "            self._asking.pop(longest).cancel()\n",
        "            self._asking.pop(longest)\n",
        STRANGERS,
        "keeps_nobody_out",
    ),
    Mutant(
        "the keys of an operation before are good for the next one",
        "agent/offers.py",
        "before.operation_key == operation_key and before.given",
        "before.given",
        STRANGERS,
        "a_key_opens",
    ),
    Mutant(
        "a guest that starts is still copied",
        "agent/servers.py",
        "        await call.agent.copying.withdraw(server_id)\n        await _start(call)",
        "        await _start(call)",
        CONTRACT,
        "simulated and starts_again_where",
    ),
    Mutant(
        "a disk is given though somebody wrote to it",
        "agent/offers.py",
        "        return _stamp(given.path) == given.stamp\n",
        "        return bool(_stamp(given.path))\n",
        COPIES,
        "was_written_to",
    ),
    Mutant(
        "a stream goes on without its offer",
        "agent/copying.py",
        "        self.offers.withdraw(server_id)\n        if not self.offers:\n",
        "        if not self.offers:\n",
        COPIES,
        "withdrawn",
    ),
    Mutant(
        "what has come counts unread",
        "agent/copies.py",
        "        if _differs(await measure(path), disk):\n            self.forget",
        "        if not path.name:\n            self.forget",
        COPIES,
        "is_what_was_offered",
    ),
    Mutant(
        "a copy begins anew after each crash",
        "agent/copies.py",
        "part = noted = _Part() if is_new else record.parts[number]\n",
        "part = noted = _Part()\n",
        COPIES,
        "source_was_killed",
    ),
    Mutant(
        "nobody looks for room",
        "agent/copies.py",
        "    if wanted > free:\n",
        "    if wanted < 0:\n",
        COPIES,
        "fill_the_host",
    ),
    Mutant(
        "a discarded copy leaves its guest's directory",
        "agent/copying.py",
        "    if await agent.hypervisor.guest(server_id) is None:\n",
        "    if not server_id:\n",
        COPIES,
        "discarded_ends",
    ),
    Mutant(
        "the disks of a guest go with their copy",
        "agent/copying.py",
        "    if await agent.hypervisor.guest(server_id) is None:\n",
        "    if server_id:\n",
        CONTRACT,
        "simulated and discarded_by_nobody",
    ),
    Mutant(
        "a digest does not tell places apart",
        "agent/blocks.py",
        "            self._hash.update(HEAD.pack(piece.offset + at, len(block)))\n",
        "",
        BLOCKS,
        "same_digest",
    ),
    Mutant(
        "a copied disk is made smaller",
        "agent/local_disks.py",
        "    if 0 < wanted_bytes < has_bytes:\n",
        "    if wanted_bytes < 0:\n",
        CONTRACT,
        "simulated and never_smaller",
    ),
    Mutant(
        "nothing is slowed down",
        "agent/pace.py",
        "        if (wait_s := begin - self._now()) > 0:\n",
        "        if (wait_s := begin - self._now()) < 0:\n",
        BLOCKS,
        "no_faster",
    ),
]
