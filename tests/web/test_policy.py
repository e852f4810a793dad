from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oslo_config import cfg
from oslo_policy import policy as oslo

from mooring.errors import Bug, Invalid
from mooring.web.policy import BASE_RULES, Policy
from mooring.who import Who

MINE, OTHERS = {"project_id": "p1"}, {"project_id": "p2"}


def who(*roles: str) -> Who:
    return Who(user_id="u1", project_id="p1", roles=frozenset(roles), is_admin="admin" in roles)


def test_a_reader_reads_its_own_project_only() -> None:
    policy = Policy({"boats:get": "rule:project_reader_or_admin"})
    assert policy.allows(who("reader"), "boats:get", MINE)
    assert not policy.allows(who("reader"), "boats:get", OTHERS)
    assert policy.allows(who("admin"), "boats:get", OTHERS)


def test_an_unregistered_rule_is_a_bug() -> None:
    with pytest.raises(Bug, match="boats:fly"):
        Policy({}).allows(who("admin"), "boats:fly", MINE)


def test_the_operators_file_wins(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('"boats:get": "role:sailor"\n"sailors": "role:sailor"\n')
    policy = Policy({"boats:get": "role:reader"}, file=file)
    assert policy.allows(who("sailor"), "boats:get", MINE)
    assert not policy.allows(who("reader"), "boats:get", MINE)


@pytest.mark.parametrize("text", ["- a", "boats: [", "boats: 4", "boats: 'role:a and and b'"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(Invalid, match=r"policy\.yaml"):
        Policy({}, file=file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        Policy({}, file=tmp_path / "policy.yaml")


ATOMS = st.sampled_from(
    [
        "role:admin",
        "role:reader",
        "@",
        "!",
        "is_admin:True",
        "project_id:%(project_id)s",
        "user_id:%(user_id)s",
        "system_scope:all",
        "rule:context_is_admin",
        "rule:unknown",
    ]
)
RULES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]} and {two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"({two[0]} or {two[1]})"),
        inner.map(lambda one: f"not {one}" if one.startswith("(") else f"not ({one})"),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    text=RULES,
    roles=st.sets(st.sampled_from(["admin", "reader", "member"])),
    target=st.sampled_from([MINE, OTHERS, {}, {"user_id": "u1"}]),
)
def test_we_decide_as_oslo_policys_enforcer_does(
    text: str, roles: set[str], target: dict[str, Any]
) -> None:
    caller = who(*roles)
    enforcer = oslo.Enforcer(cfg.ConfigOpts(), use_conf=False)
    enforcer.set_rules(oslo.Rules.from_dict({**BASE_RULES, "it": text}), use_conf=False)
    credentials = {
        "user_id": caller.user_id,
        "project_id": caller.project_id,
        "roles": list(caller.roles),
        "is_admin": caller.is_admin,
        "system_scope": None,
    }
    theirs: Any = enforcer.enforce("it", dict(target), credentials)
    assert Policy({"it": text}).allows(caller, "it", target) == bool(theirs)
