"""Faults in what keeps others out, and in what a cloud survives."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STRANGERS = "tests/web/test_http_refusals.py"
MUTANTS = [
    Mutant(
        name="who is turned away over TLS is not told of",
        file="http_tls.py",
        old="if self._refusals is not None and not self._is_over:",
        new="if self._refusals is not None and self._is_over:",
        tests=STRANGERS,
    ),
    Mutant(
        name="a scanner fills the log",
        file="http_refusals.py",
        old="if self._told < http_limits.HTTP_REFUSALS:",
        new="if self._told >= 0:",
        tests=STRANGERS,
    ),
    Mutant(
        name="guests reach their host",
        file="agent/libvirt/network_devices.py",
        old="restrict=on",
        new="restrict=off",
        tests="tests/agent/test_domain_xml.py",
    ),
    Mutant(
        name="an enabled project has its old tokens",
        file="identity/tokens.py",
        old="found.place.generation != (token.place_generation or 0)",
        new="found.place.generation < 0",
        tests="tests/identity/test_tokens.py",
        only="enabled_again",
    ),
    Mutant(
        name="readers see connections",
        file="volume/wire/views.py",
        old="call.who.user_id == row.user_id",
        new="bool(row.id)",
        tests="tests/volume/test_attachments.py",
        only="a_connection_is_shown",
    ),
    Mutant(
        name="uploads take the reserve",
        file="image/files.py",
        old="self._leave(len(chunk))",
        new="self._leave(-self._reserve_bytes)",
        tests="tests/image/test_quotas.py",
        only="reserve",
    ),
    Mutant(
        name="refusals are not audited",
        file="web/audit.py",
        old="_REFUSALS = {401, 403, 429}",
        new="_REFUSALS = {429}",
        tests="tests/web/test_audit.py",
    ),
    Mutant(
        name="a process takes the passwords of others",
        file="access.py",
        old="known = (own or {}) if kept is None else typed.decode(kept, dict[str, str])",
        new="known = own or {}",
        tests="tests/test_several_processes.py",
        only="nothing_away",
    ),
]
