"""Faults seeded in the share service."""

from __future__ import annotations

from tests.mutants.mutant import FAILING, STEPS, Mutant

_LOCKS, _SHARES = "tests/share/test_locks.py", "tests/share/test_shares.py"
MUTANTS = [
    Mutant(
        "a rule that failed stays with the storage",
        "share/access/sagas/apply_rule.py",
        "    await agent.revoke_access(notes.share_id, notes.rule_id, pool, "
        "operation=run.operation)\n",
        "    del agent, pool\n",
        STEPS,
        f"{FAILING} and apply_rule",
    ),
    Mutant(
        "a second rule for the same client is not noticed",
        "share/access/access.py",
        "        _check_unknown(tx, share, wanted)\n",
        "",
        "tests/share/test_access.py",
        "second_rule",
    ),
    Mutant(
        "a share that was not made smaller says that it was",
        "share/shares/sagas/resize_share.py",
        "    found = notes.old_gib if notes.found_gib is None else notes.found_gib\n",
        "    found = notes.new_gib\n",
        _SHARES,
        "not_below",
    ),
    Mutant(
        "a reset does not look at what the storage has",
        "share/shares/sagas/reset_status.py",
        '        gone = {"status": "error_deleting"}\n',
        "        gone = {}\n",
        _SHARES,
        "has_no_more",
    ),
    Mutant(
        "a locked share is deleted",
        "share/shares/shares.py",
        '        locks.require_none(tx, "share", row.id)\n',
        "",
        _LOCKS,
        "not_deleted",
    ),
    Mutant(
        "locks outlive their rule",
        "share/access/sagas/deny_rule.py",
        "        locks.forget(tx, [row.id])\n",
        "",
        _LOCKS,
        "hides_its_client",
    ),
    Mutant(
        "the client of a hidden rule is shown to everybody",
        "share/locks/locks.py",
        "lock.resource_id for lock in found if not may_touch(who, lock)",
        "lock.resource_id for lock in found if lock.id == who.user_id",
        _LOCKS,
        "hides_its_client",
    ),
    Mutant(
        "a user passes over a service's lock",
        "share/locks/locks.py",
        '    return mine == lock.lock_context == "service"\n',
        "    return True\n",
        _LOCKS,
        "not_its_user",
    ),
]
