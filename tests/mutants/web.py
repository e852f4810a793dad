"""Faults seeded in what all services answer through."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "requests queue without end behind one",
        "http_bounds.py",
        "if len(self.pipeline) >= http_limits.HTTP_PIPELINED:",
        "if len(self.pipeline) < 0:",
        "tests/web/test_http_bounds.py",
        "test_who_sends_a_thousand_ahead_is_cut_off",
    ),
    Mutant(
        "connections that ask for nothing keep their places",
        "http_bounds.py",
        "return self._displace_known() or",
        "return",
        "tests/web/test_http_bounds.py",
        "test_a_new_connection_takes_the_place_of_the_one_that_was_silent_longest",
    ),
    Mutant(
        "who shakes hands has no place",
        "http_tls.py",
        "            self._places.add(self)\n",
        "",
        "tests/web/test_http_tls.py",
        "test_the_silent_take_no_more_places_than_there_are",
    ),
    Mutant(
        "handshakes have as long as asyncio gives them",
        "http_tls.py",
        'cast("int", http_limits.HTTP_HEAD_WAIT_S)',
        "60",
        "tests/web/test_http_tls.py",
        "test_who_does_not_finish_a_handshake_is_cut_off",
    ),
    Mutant(
        "pages have no bound",
        "web/paging.py",
        "min(limit, most), query.get",
        "limit, query.get",
        "tests/web/test_paging.py",
        "test_a_larger_limit_is_cut",
    ),
    Mutant(
        "any key sorts",
        "web/paging.py",
        "    if name not in keys:\n",
        "    if not name:\n",
        "tests/web/test_paging.py",
        "test_a_sort_order_that_makes_no_sense_is_refused",
    ),
    Mutant(
        "a version beyond the newest is served",
        "web/microversion.py",
        "if not face.minimum <= version <= face.maximum:",
        "if not face.minimum <= version:",
        "tests/web/test_versions.py",
        "test_a_version_outside_the_range_is_406_and_echoed",
    ),
    Mutant(
        "who asks for no version gets the newest",
        "web/microversion.py",
        "    if asked is None:\n        return face.minimum",
        "    if asked is None:\n        return face.maximum",
        "tests/web/test_versions.py",
        "test_without_a_header_the_oldest_version_rules",
    ),
    Mutant(
        "the version is not echoed",
        "web/microversion.py",
        "    if version is None or not face.has_versions:\n        return {}",
        "    if version is None or face.has_versions:\n        return {}",
        "tests/web/test_versions.py",
        "test_without_a_header_the_oldest_version_rules",
    ),
    Mutant(
        "policy is asked once for all owners",
        "web/policy.py",
        'key = (rule, target.get("project_id"), target.get("user_id"))',
        "key = (rule, None, None)",
        "tests/web/test_policy.py",
        "test_a_reader_reads_its_own_project_only",
    ),
    Mutant(
        "the operator's rules are not read",
        "web/policy.py",
        "self._texts.update(_read(file))",
        "_read(file)",
        "tests/web/test_policy.py",
        "test_the_operators_file_wins",
    ),
    Mutant(
        "handlers do not ask the policy",
        "web/api.py",
        "        if not self.allowed(rule, target):\n",
        "        if not rule:\n",
        "tests/web/test_app.py",
        "test_policy_refuses_before_the_handler",
    ),
]
