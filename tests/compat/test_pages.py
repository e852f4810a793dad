"""`docs/compat/` says what the routes and the tests say."""

from __future__ import annotations

from collections.abc import Callable

from tests.compat.clients_page import clients_page, seen_commands
from tests.compat.notifications_page import KINDS, notifications_page
from tests.compat.pages import pages
from tests.laws.scenarios import EVENTS


def test_every_call_is_documented_with_the_tests_that_ask_for_it(
    golden: Callable[[str, str], None],
) -> None:
    for name, text in [*pages(), ("clients.md", clients_page())]:
        golden(f"docs/compat/{name}", text)


def test_every_notification_is_on_its_page(golden: Callable[[str, str], None]) -> None:
    kinds = {word for words in KINDS.values() for word in words}
    assert {event.event.partition(".")[0] for event in EVENTS} == kinds
    golden("docs/compat/notifications.md", notifications_page())


def test_every_command_of_a_first_session_is_run_by_a_contract_test() -> None:
    assert not [command for command, tests in seen_commands().items() if not tests]
