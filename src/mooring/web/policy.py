"""Who may do what: oslo.policy's rules, upstream's names, an operator's file on top.

oslo.policy's Enforcer decides. Its import costs 0.1 s and 4 MiB, so the first question pays for it
and no start does; it gets each rule when that is first asked for; and as a question costs it
0.1 ms, what it said is remembered.
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from mooring import limits, typed
from mooring.errors import Bug, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from mooring.web.api import Target
    from mooring.who import Who

BASE_RULES = {
    "context_is_admin": "role:admin",
    "admin_required": "role:admin or is_admin:1",
    "admin_api": "is_admin:True",
    "service_role": "role:service",
    "service_api": "role:service",
    "admin_or_service": "role:admin or role:service",
    "owner": "user_id:%(user_id)s",
    "admin_or_owner": "is_admin:True or project_id:%(project_id)s",
    "project_reader_api": "role:reader and project_id:%(project_id)s",
    "project_member_api": "role:member and project_id:%(project_id)s",
    "project_manager_api": "role:manager and project_id:%(project_id)s",
    "project_reader_or_admin": "rule:project_reader_api or rule:context_is_admin",
    "project_member_or_admin": "rule:project_member_api or rule:context_is_admin",
    "project_manager_or_admin": "rule:project_manager_api or rule:context_is_admin",
}
"""Rules that every service may name in its own `RULES`; upstream's words."""


_RULE = re.compile(r"\brule:([^\s()]+)")


class _Rules:
    """oslo.policy's enforcer, which is given a rule, and those it names, when it needs them."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        from oslo_config import cfg
        from oslo_policy import policy

        self._texts = texts
        self._known: set[str] = set()
        self._enforcer: Any = policy.Enforcer(cfg.ConfigOpts(), use_conf=False)

    def ask(self, rule: str, target: dict[str, Any], credentials: dict[str, Any]) -> bool:
        """Tell whether somebody with these credentials may do `rule` to `target`."""
        self._give(rule)
        return bool(self._enforcer.enforce(rule, target, dict(credentials)))

    def _give(self, rule: str) -> None:
        if rule in self._known or rule not in self._texts:
            return
        self._known.add(rule)
        self._enforcer.set_rules(parse({rule: self._texts[rule]}), overwrite=False)
        for named in _RULE.findall(self._texts[rule]):
            self._give(named)


class Policy:
    """The rules of one service. `rules` are its own, over BASE_RULES; `file` is the operator's.

    Raises Invalid when the file is not a YAML object of rules that can be read.
    """

    def __init__(self, rules: Mapping[str, str], *, file: Path | None = None) -> None:
        self._texts = {**BASE_RULES, **rules}
        if file is not None:
            self._texts.update(_read(file))
        self._rules: _Rules | None = None
        # Answers never change, and the same few callers come again and again.
        self._asked_as = lru_cache(limits.POLICY_CALLERS)(self._answers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __contains__(self, rule: str) -> bool:
        return rule in self._texts

    def allows(self, who: Who, rule: str, target: Target) -> bool:
        """Tell whether `who` may do `rule` to `target`. Raises Bug for a rule nobody registered."""
        return self.asked_by(who)(rule, target)

    def asked_by(self, who: Who) -> Callable[[str, Target], bool]:
        """Return `allows` for one caller; it asks once per rule and owner, not once per row."""
        return self._asked_as(_tell(who))

    def _answers(self, told: tuple[Any, ...]) -> Callable[[str, Target], bool]:
        credentials = _credentials(*told)
        known: dict[tuple[str, Any, Any], bool] = {}

        def allows(rule: str, target: Target) -> bool:
            if rule not in self._texts:
                raise Bug(f"The rule {rule} is not registered.")
            if not target.keys() <= {"project_id", "user_id"}:
                return self._ask(rule, dict(target), credentials)
            key = (rule, target.get("project_id"), target.get("user_id"))
            if key not in known:
                if len(known) >= limits.POLICY_ANSWERS:
                    known.clear()
                known[key] = self._ask(rule, dict(target), credentials)
            return known[key]

        return allows

    def _ask(self, rule: str, target: dict[str, Any], credentials: dict[str, Any]) -> bool:
        self._rules = self._rules or _Rules(self._texts)
        return self._rules.ask(rule, target, credentials)


def parse(texts: dict[str, str]) -> dict[str, Any]:
    """Return oslo.policy's checks of some rules. What cannot be parsed denies everything."""
    from oslo_policy import policy

    rules: Any = policy.Rules
    return rules.from_dict(texts)


_TOLD = (
    *("user_id", "user_domain_id", "project_id", "project_domain_id", "domain_id"),
    *("system_scope", "roles", "is_admin", "service_user_id", "service_roles"),
)
"""What the rules see of a caller."""
_tell = attrgetter(*_TOLD)


def _credentials(*told: Any) -> dict[str, Any]:
    known = dict(zip(_TOLD, told, strict=True))
    return {
        **known,
        "tenant_id": known["project_id"],
        "system_scope": known["system_scope"] or None,
        "roles": sorted(known["roles"]),
        "service_roles": sorted(known["service_roles"]),
    }


def _read(file: Path) -> dict[str, str]:
    import yaml

    try:
        loaded: Any = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        rules = typed.convert(loaded, dict[str, str])
    except (OSError, yaml.YAMLError) as error:
        raise Invalid(f"The policy file {file} cannot be read: {error}") from error
    except msgspec.ValidationError as error:
        raise Invalid(f"The policy file {file} is not a list of 'rule: text': {error}") from error
    checks = parse(rules)
    for name, text in rules.items():
        if str(checks[name]) == "!" and text.strip() != "!":
            raise Invalid(f"The policy file {file} has a rule that cannot be parsed: {name}.")
    return rules
