"""What every test may use."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from pathlib import Path

# Imported first: pytest rewrites it on import, and CPython 3.11's parser fails when the garbage
# collector runs finalizers meanwhile, as it may once tests have left sockets and tasks behind.
import hypothesis
import pytest

from tests import passages
from tests.compiled import share_statements
from tests.kept import keeper
from tests.memory import memory_path, note_failure, tmp_path
from tests.postgres import (
    database,
    location,
    postgres_server,
    postgres_url,
    postgres_wire,
    wired_url,
)
from tests.sampling import COLLECTED, choose, leave_out, spread

__all__ = [
    "database",
    "keeper",
    "location",
    "memory_path",
    "postgres_server",
    "postgres_url",
    "postgres_wire",
    "tmp_path",
    "wired_url",
]

CHECKOUT = Path(__file__).parents[1]
GARBAGE = 10_000
"""How many objects more than before there are when garbage is looked for."""

hypothesis.settings.register_profile("mooring", deadline=None)
hypothesis.settings.load_profile("mooring")
share_statements()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep what tests write where guests get at it; look for no garbage while tests are found."""
    passages.choose_base(config)
    gc.disable()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep it only of tests that failed."""
    passages.clear_base(session.config, exitstatus)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let what a failed test wrote be kept."""
    report = yield
    note_failure(item, report)
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="write golden files anew")
    parser.addoption(
        "--every",
        action="store_true",
        help="run every kill point, pair and seed instead of a sample",
    )
    parser.addoption(
        "--brief",
        action="store_true",
        help="run only what the commit chooses of tests with real guests or stock clients, and of"
        " tests with many cases; each case on one database",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses the fixture `golden`, so that `make golden` finds it; choose if asked to."""
    config.stash[COLLECTED] = [item.nodeid for item in items]
    for item in items:
        if "golden" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.golden)
    if config.getoption("--brief") and not config.getoption("--every"):
        left = leave_out(items)
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = spread([item for item in items if item not in left])


def pytest_collection_finish() -> None:
    """Look through what all tests share for garbage once: that took an eighth of their time.

    And seldom for what a test leaves: that took a fourteenth, and takes half of that.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE, 10, 10)
    gc.enable()


def pytest_report_header(config: pytest.Config) -> str:
    """Say what a brief run leaves out, and who runs it."""
    is_brief = config.getoption("--brief") and not config.getoption("--every")
    what = (
        "real guests, stock clients: those that the commit chooses; make guests: all\n"
        "each case on one of its databases, and of a test with many cases a third, which the commit"
        " chooses; make cases: all"
    )
    return what if is_brief else ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test marked `cases(list, count)` its parameter `case`: a sample, or all."""
    for marker in metafunc.definition.iter_markers("cases"):
        cases, count = marker.args
        chosen = choose(metafunc.config, metafunc.definition.nodeid, cases, count)
        metafunc.parametrize(
            "case", chosen, ids=[getattr(case, "name", str(case)) for case in chosen]
        )


@pytest.fixture(scope="session")
def tmp_path_factory(tmp_path_factory: pytest.TempPathFactory) -> pytest.TempPathFactory:
    """Makes directories that guests' emulators pass, where they run as a user of their own."""
    return passages.open_to_guests(tmp_path_factory)


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, the only loop that Mooring runs on."""
    return "asyncio"


@pytest.fixture(scope="session")
def libvirt_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state directory of every agent with libvirt in the process of the tests.

    libvirt keeps to one directory for the life of a process, and can be opened in it about fifteen
    times. A test that needs another directory, or many agents, starts them as processes.
    """
    return tmp_path_factory.mktemp("libvirt")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Hold a text against a file of the checkout; `make golden` writes the file instead."""

    def hold(path: str, text: str) -> None:
        file = CHECKOUT / path
        if request.config.getoption("--golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.is_file(), f"{path} is missing: run make golden"
        assert file.read_text(encoding="utf-8") == text, f"{path} is out of date: run make golden"

    return hold


@pytest.fixture
def every(request: pytest.FixtureRequest) -> bool:
    """Whether all kill points, pairs and seeds are asked for, not only the sample."""
    return bool(request.config.getoption("--every"))
