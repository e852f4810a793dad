"""Run real services beside Mooring, and what users do with them: `make beside`.

It runs in a network of its own, made by `scripts/beside`: nothing outside is reached, and every
port is free. `make beside PARTS=nova` runs one part of the story.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.beside import broker, cinder_story, host_story, manila_story, nova_story, share_story
from tests.beside.cinder import run_cinder
from tests.beside.cloud import passwords_of, point, run_cloud, write_storage
from tests.beside.manila import run_manila
from tests.beside.network import CINDER, MANILA, NOVA
from tests.beside.no_network import no_network
from tests.beside.nova import HOSTS, run_nova
from tests.beside.programs import Failed
from tests.beside.services import Beside
from tests.beside.steps import ask_doctor, run_steps
from tests.beside.users import User
from tests.loopback import raise_loopback
from tests.postgres import Server, run_server

NOBODY = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
"""Before the commands of PostgreSQL, which refuses to run as root."""
Part = Callable[[Path, str, Server], int]


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def with_nova(work: Path, transport: str, postgres: Server) -> int:
    """Run a real Nova on Mooring's services; return how much failed."""
    settings = {
        "MOORING_STORAGE": str(write_storage(work, HOSTS)),
        "MOORING_EXTEND_COMPLETION_VERSION": "",
        "MOORING_BORROWED_FOR_S": str(host_story.BORROWED_FOR_S),
    }
    with ExitStack() as stack:
        cloud = stack.enter_context(run_cloud(work, settings))
        point(cloud, "compute", NOVA)
        stack.enter_context(no_network(cloud))
        at = Beside(work / "nova", transport, postgres, passwords_of(cloud))
        nova = stack.enter_context(run_nova(at))
        user = User(cloud)
        user.make_flavor()
        failed = run_steps(user, [*nova_story.STEPS, *share_story.STEPS, host_story.step(nova)])
        return failed + ask_doctor(cloud)


def with_cinder(work: Path, transport: str, postgres: Server) -> int:
    """Run Mooring's compute service on a real Cinder; return how much failed."""
    with ExitStack() as stack:
        cloud = stack.enter_context(run_cloud(work, {}))
        at = Beside(work / "cinder", transport, postgres, passwords_of(cloud))
        stack.enter_context(run_cinder(at))
        point(cloud, "block-storage", CINDER)
        user = User(cloud)
        user.make_flavor()
        failed = run_steps(user, cinder_story.STEPS)
        return failed + ask_doctor(cloud)


def with_manila(work: Path, transport: str, postgres: Server) -> int:
    """Run Mooring's compute service on a real Manila; return how much failed."""
    with ExitStack() as stack:
        cloud = stack.enter_context(run_cloud(work, {}, hosts=2))
        at = Beside(work / "manila", transport, postgres, passwords_of(cloud))
        manila = stack.enter_context(run_manila(at))
        point(cloud, "shared-file-system", MANILA)
        user = User(cloud)
        user.make_flavor()
        manila_story.prepare(user)
        failed = run_steps(user, manila_story.steps(manila))
        return failed + ask_doctor(cloud)


PARTS: dict[str, Part] = {"nova": with_nova, "cinder": with_cinder, "manila": with_manila}


def run(work: Path, names: Sequence[str]) -> int:
    """Run parts; return how much failed in all."""
    raise_loopback()
    with run_server(NOBODY) as postgres, broker.run_broker(work / "broker") as transport:
        failed = 0
        for name in names:
            say(f"{name}:")
            directory = work / name
            directory.mkdir()
            failed += PARTS[name](directory, transport, postgres)
        return failed


def main() -> int:
    """Run the parts that are named, or all, in a directory that is kept when something failed."""
    why = broker.missing()
    if why:
        say(f"beside: not run: {why}")
        return 0
    work = Path(tempfile.mkdtemp(prefix="mooring-beside-"))
    try:
        failed = run(work, sys.argv[1:] or list(PARTS))
    except Failed as error:
        say(f"beside: {error}")
        failed = 1
    if failed:
        say(f"beside: failed; logs and configuration are in {work}")
        return 1
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
