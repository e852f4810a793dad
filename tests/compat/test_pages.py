"""`docs/compat/` says what the routes and the tests say."""

from __future__ import annotations

from collections.abc import Callable

from tests.compat.clients_page import clients_page, seen_commands
from tests.compat.pages import pages


def test_every_call_is_documented_with_the_tests_that_ask_for_it(
    golden: Callable[[str, str], None],
) -> None:
    for name, text in [*pages(), ("clients.md", clients_page())]:
        golden(f"docs/compat/{name}", text)


def test_every_command_of_a_first_session_is_run_by_a_contract_test() -> None:
    assert not [command for command, tests in seen_commands().items() if not tests]
