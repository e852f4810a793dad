"""Faults seeded in what servers do with shares."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_DOORS, _FOLDERS = "compute/shares/doors.py", "compute/shares/folders.py"
_SHARES, _POWER = "tests/compute/test_server_shares.py", "tests/compute/test_share_power.py"
MUTANTS = [
    Mutant(
        "a rule goes that another server relies on",
        _DOORS,
        "    if any(one.state not in LEFT and (one.mapping_id, one.host) != where "
        "for one in others):\n",
        "    if not others:\n",
        _SHARES,
        "share_a_rule",
    ),
    Mutant(
        "a rule that somebody else made goes with the share",
        _DOORS,
        "        return await run.service.shares.has_locked(None, rule.id, access_rules.REASON)\n",
        "        return True\n",
        _SHARES,
        "used_and_left",
    ),
    Mutant(
        "whose rule it is its users say",
        _DOORS,
        " if place.rule_is_ours is None else place.rule_is_ours",
        "",
        "tests/compute/test_left_shares.py",
        "whatever",
    ),
    Mutant(
        "a public share of another project is given to a server",
        "compute/shares/server_shares.py",
        "    if share.project_id != project_id:\n",
        '    if share.project_id == "":\n',
        _SHARES,
        "of_another_project",
    ),
    Mutant(
        "a start that fails leaves its shares mounted",
        "compute/power/sagas/power.py",
        "    if notes.found not in OFF or",
        "    if notes.found in OFF or",
        _POWER,
        "leaves_nothing_mounted",
    ),
    Mutant(
        "a rule that only lets read is taken for one that lets write",
        _DOORS,
        '    if rule.access_level != "rw":\n',
        '    if rule.access_level == "none":\n',
        _SHARES,
        "only_reads",
    ),
    Mutant(
        "who is kept out does not wait until the rule is gone",
        _DOORS,
        "        raise Park(seconds=access_rules.pause_s(run), timeout_s=COMPUTE_SHARE_LEAVES_S)\n",
        "        rule = None\n",
        _SHARES,
        "only_once",
    ),
    Mutant(
        "a share that was mounted before is unmounted when a reboot fails",
        "compute/shares/power.py",
        "    return None if folder.mapping_id in notes.mounted else "
        "await folders.unmount(run, folder)\n",
        "    return await folders.unmount(run, folder)\n",
        _POWER,
        "not_let_in",
    ),
    Mutant(
        "a deletion leaves the rule",
        "compute/delete/sagas/old_shares.py",
        '    Step("revoke_access", _steps.revoke),\n',
        "",
        _POWER,
        "takes_rule_and_mount",
    ),
    Mutant(
        "a guest that stopped by itself keeps its shares active",
        "compute/hosts/loops/heal_servers.py",
        '        mappings.set_status(tx, server.id, ["active"], "inactive", now)\n',
        "        assert mappings\n",
        _POWER,
        "stops_by_itself",
    ),
    Mutant(
        "a mount is forgotten where it is",
        _FOLDERS,
        "    share_places.change(tx, *where, run.now(), state=MOUNTED, path=path)\n",
        "    share_places.change(tx, *where, run.now(), state=MOUNTED, path=None)\n",
        _POWER,
        "mounts_and_a_stop",
    ),
    Mutant(
        "a tag is counted in characters beyond what a guest takes",
        "compute/shares/server_shares.py",
        "    if len(tag.encode()) > TAG_BYTES:\n",
        "    if len(tag.encode()) > 10 * TAG_BYTES:\n",
        _SHARES,
        "bad_requests",
    ),
    Mutant(
        "a rule that was made at the second try stays when it is taken back",
        "compute/shares/doors.py",
        "    if made and place.state == GRANTING:\n",
        "    if made:\n",
        "tests/compute/test_left_shares.py",
        "second_try",
    ),
    Mutant(
        "who comes waits for a rule that a silent host keeps from being denied",
        "compute/shares/sagas/release_share.py",
        "run.now(), state=LEAVING)\n",
        "run.now(), state=REVOKING)\n",
        "tests/compute/test_silent_hosts_shares.py",
        "keeps_no_other",
    ),
    Mutant(
        "what comes late forgets that a server was let in anew",
        "compute/shares/leaving_places.py",
        "    if place is None or place.state != seen.state:\n        return True\n"
        "    if not _is_same(place, seen):\n        return False\n",
        "    assert _is_same\n",
        "tests/compute/test_shares_back.py",
        "late_answer",
    ),
    Mutant(
        "what was noted of a mount of before is noted of the one that is there since",
        "compute/shares/sagas/release_share.py",
        "        await folders.unmount(run, notes.folder)\n",
        "        return await folders.unmount(run, notes.folder)\n",
        "tests/compute/test_shares_back.py",
        "unmounts_a_share",
    ),
    Mutant(
        "a host is let in by a rule that is being denied",
        "compute/shares/doors.py",
        "    if place.state == REVOKING and leaving_places",
        "    if place.state == GRANTED and leaving_places",
        "tests/compute/test_shares_back.py",
        "kept_out",
    ),
]
