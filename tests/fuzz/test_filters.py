"""Every list, asked by every filter that its service knows, for what few columns hold: no 5xx.

What `test_fuzz` draws by chance meets one filter of one list too seldom. `make fuzz` asks them all.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest
from msgspec import Struct

from tests.cloud import SimulatedCloud
from tests.crowd.clients import SERVICES
from tests.crowd.routes import api_modules, routes_in
from tests.fuzz.questions import columns_of, words_in

pytestmark = pytest.mark.anyio

TEXTS = (
    *("", "x", "-1", "99999999999999999999", "100%", "2026-01-01", "gt:2026", "true", "\0"),
    *("{[]: 1}", r"{'a': '\ud800'}", r"{'a': '\0'}"),
)
_NEWEST = "latest"


class Lists(Struct, frozen=True):
    """The lists whose routes one module of a service has."""

    service: str
    module: str
    paths: tuple[str, ...]
    words: tuple[str, ...]

    def __str__(self) -> str:
        return self.module.removeprefix("mooring.")


def every_list() -> list[Lists]:
    """Return what of each module can be listed, and the words that its filters may have."""
    found: list[Lists] = []
    for service in SERVICES:
        for module in api_modules(service):
            routes = {route.path for route in routes_in(module) if route.method == "GET"}
            paths = tuple(sorted(path for path in routes if "{" not in path))
            if paths:
                words = sorted({*words_in(module), *columns_of(service)})
                found.append(Lists(service, module.__name__, paths, tuple(words)))
    return found


@pytest.mark.cases(every_list(), 3)
async def test_no_filter_of_any_list_is_answered_with_a_server_s_mistake(
    database: str, tmp_path: Path, case: Lists
) -> None:
    root, wrong = SERVICES[case.service][0], list[str]()
    async with SimulatedCloud(tmp_path / "state", database=database) as cloud:
        for path in case.paths:
            for word in case.words:
                for text in TEXTS:
                    query = urlencode({word: text})
                    answer = await cloud.do(
                        "GET", f"{root}{path}?{query}", user="admin", version=_NEWEST
                    )
                    assert answer is not None
                    if answer.status >= 500 and answer.status != 501:
                        wrong.append(f"{path}?{query}: {answer.status} {answer.content[:200]!r}")
    assert wrong == []
