"""Who may do what: oslo.policy's rules, upstream's names, an operator's file on top.

The rules are parsed by oslo.policy's own parser and evaluated by its own checks. Its Enforcer is
left out: with oslo.config behind it, it costs 4 MiB and 100 ms at the start and 0.12 ms at each
question, where asking the checks costs 5 microseconds. A test holds the two against each other.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
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


class _Checks:
    """Parsed rules by name, each parsed when first asked for: an enforcer, to oslo.policy."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._parsed: dict[str, Callable[..., Any]] = {}

    @property
    def rules(self) -> _Checks:
        return self

    def __getitem__(self, name: str) -> Callable[..., Any]:
        check = self._parsed.get(name)
        if check is None:
            check = self._parsed[name] = parse(self._texts[name])
        return check


class Policy:
    """The rules of one service. `rules` are its own, over BASE_RULES; `file` is the operator's.

    Raises Invalid when the file is not a YAML object of rules that can be read.
    """

    def __init__(self, rules: Mapping[str, str], *, file: Path | None = None) -> None:
        self._texts = {**BASE_RULES, **rules}
        if file is not None:
            self._texts.update(_read(file))
        self._checks = _Checks(self._texts)
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
        return self._asked_as(tuple(getattr(who, name) for name in _TOLD))

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
        return bool(self._checks[rule](target, credentials, self._checks, rule))


def parse(text: str) -> Callable[..., Any]:
    """Return oslo.policy's check for one rule. What cannot be parsed denies everything."""
    parser: Any = importlib.import_module("oslo_policy._parser")
    return parser.parse_rule(text)


_TOLD = (
    *("user_id", "user_domain_id", "project_id", "project_domain_id", "system_scope"),
    *("roles", "is_admin", "service_user_id", "service_roles"),
)
"""What the rules see of a caller."""


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
    for name, text in rules.items():
        if str(parse(text)) == "!" and text.strip() != "!":
            raise Invalid(f"The policy file {file} has a rule that cannot be parsed: {name}.")
    return rules
