"""Run tests of Tempest's own package against a cloud that is made for them: `make tempest`.

It runs in a network of its own, made by `scripts/tempest`: nothing outside is reached, and every
port is free. It ends with Tempest's own exit code; a test that did not run is a failure.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.contract.clients import COMPUTE, MIB, Answer, Cloud
from tests.loopback import raise_loopback
from tests.tempest.api import API, MANAGERS, PICTURES, RETYPES, TWO_POOLS
from tests.tempest.network import CLOUD_PORT, PORT, STAND_IN
from tests.tempest.rescues import RESCUES
from tests.tempest.settings import (
    MANAGER,
    OTHERS,
    READER,
    REBUILD,
    SHARED,
    Part,
    whose,
    write_accounts,
    write_configuration,
)
from tests.tempest.shares import POOLS, SHARES

PROGRAMS = Path("build/tempest/bin").absolute()
_TOTAL = re.compile(r"^ - (\w[\w ]*): (\d+)$", re.MULTILINE)


@contextmanager
def guests_stand_in(state_dir: Path, log: Path) -> Generator[None]:
    """Run the stand-in for guests until the context is left."""
    command = [PROGRAMS / "python", "-m", "tests.tempest.guests", state_dir]
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise SystemExit(f"tempest: the stand-in for guests: {log.read_text('utf-8')}")
            yield
        finally:
            process.terminate()


@contextmanager
def guests_cloud(work: Path) -> Generator[Cloud]:
    """Start a cloud with simulated guests that are logged in to; stop it in the end.

    Its volumes are raw files, and all of it answers through the stand-in for guests.
    """
    storage = work / "storage.toml"
    storage.write_text('[[pools]]\nname = "local"\ndriver = "directory"\nformat = "raw"\n', "utf-8")
    os.environ["MOORING_STORAGE"] = str(storage)
    os.environ["MOORING_PUBLIC_URL"] = f"http://127.0.0.1:{PORT}"
    # It comes first: the cloud's services reach each other through it.
    with guests_stand_in(work / "state", work / "guests.log"):
        cloud = Cloud(work / "state", work / "cloud.log", listen=f"127.0.0.1:{CLOUD_PORT}")
        del os.environ["MOORING_STORAGE"], os.environ["MOORING_PUBLIC_URL"]
        try:
            yield cloud
        finally:
            cloud.stop()


@contextmanager
def hosts_cloud(work: Path) -> Generator[Cloud]:
    """Start a cloud of two simulated hosts, which share volumes; stop it in the end."""
    listen = f"127.0.0.1:{CLOUD_PORT}"
    cloud = Cloud(work / "state", work / "cloud.log", listen=listen, hosts=2)
    try:
        until_both_are_up(cloud)
        yield cloud
    finally:
        cloud.stop()


@contextmanager
def stored_cloud(work: Path, pools: str) -> Generator[Cloud]:
    """Start a cloud with the pools of a storage file; stop it in the end."""
    storage = work / "storage.toml"
    storage.write_text(pools, "utf-8")
    os.environ["MOORING_STORAGE"] = str(storage)
    cloud = Cloud(work / "state", work / "cloud.log", listen=f"127.0.0.1:{CLOUD_PORT}")
    del os.environ["MOORING_STORAGE"]
    try:
        yield cloud
    finally:
        cloud.stop()


def until_both_are_up(cloud: Cloud) -> None:
    """Wait for the first answers of a cloud's two hosts."""

    def up(got: Answer) -> bool:
        return [one["state"] for one in got.key("hypervisors")] == ["up", "up"]

    cloud.http("admin").until(f"{COMPUTE}/os-hypervisors", up)


def pretend_network(cloud: Cloud) -> None:
    """Put a network service into the catalogue, whose address leads nowhere.

    Where Tempest expects one it asks it for the security groups of a project that it deletes, and
    takes a 404 for none.
    """
    admin, path = cloud.http("admin"), "/identity/v3"
    service = {"service": {"type": "network", "name": STAND_IN}}
    made = admin.ask("POST", f"{path}/services", service).key("service")
    endpoint = {
        "service_id": made["id"],
        "interface": "public",
        "region_id": "RegionOne",
        "url": f"http://127.0.0.1:{CLOUD_PORT}/{STAND_IN}",
    }
    admin.ask("POST", f"{path}/endpoints", {"endpoint": endpoint}).key("endpoint")


def prepare(cloud: Cloud, work: Path) -> tuple[str, str]:
    """Make what the tests need to find: users, a volume type, and the two images returned."""
    password = secrets.token_urlsafe()
    pretend_network(cloud)
    with cloud.connect("mooring") as admin:
        for user in (READER, MANAGER):
            admin.create_user(name=user, password=password, domain_id="default")
            admin.grant_role(user, user=user, project="demo")
        admin.block_storage.create_type(name=SHARED, extra_specs={"multiattach": "<is> True"})
        write_accounts(cloud, password, work / "accounts.yaml")
        demo = cloud.http("demo")
        old, new = (demo.image(name, name.encode() * (MIB // 4)) for name in ("old!", "new!"))
        for image in (old, new):
            # Tests that have projects of their own boot from them, too.
            admin.image.update_image(image, visibility="public")
    return old, new


def run_part(part: Part, work: Path, configuration: Path) -> int:
    """Run the tests of a part; return Tempest's exit code, or 1 when a test did not run."""
    chosen, left_out = work / f"{part.name}.tests", work / f"{part.name}.left_out"
    chosen.write_text("\n".join(part.patterns()) + "\n", "utf-8")
    left_out.write_text("\n".join(part.patterns_left_out()) + "\n", "utf-8")
    workers = ("--serial",) if part.workers == 1 else ("--concurrency", str(part.workers))
    command = [
        *(PROGRAMS / "tempest", "run", *workers, "--workspace-path", work / "workspaces.yaml"),
        *("--config-file", configuration, "--include-list", chosen),
        *(("--exclude-list", left_out) if part.left_out else ()),
    ]
    said = ""
    with subprocess.Popen(
        command, cwd=work / "tempest", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            said += line
    totals = {name: int(number) for name, number in _TOTAL.findall(said)}
    if not process.returncode and totals.get("Passed") != part.passing():
        sys.stdout.write(f"tempest: {part.passing()} tests were to pass, and the totals differ.\n")
        return 1
    return process.returncode


def run(parts: Sequence[Part], cloud: Cloud, work: Path, port: int) -> int:
    """Run parts against a cloud that answers at a port; let the doctor look at what is left."""
    workspace = ("--workspace-path", work / "workspaces.yaml", work / "tempest")
    subprocess.run([PROGRAMS / "tempest", "init", *workspace], check=True, capture_output=True)
    images = prepare(cloud, work)
    code = 0
    for part in parts:
        users = whose(part, cloud, work / "accounts.yaml")
        configuration = write_configuration(part, f"http://127.0.0.1:{port}", images, users, work)
        code = run_part(part, work, configuration) or code
    doctor = [sys.executable, "-m", "mooring.main", "doctor", "--state-dir", cloud.state_dir]
    return subprocess.run(doctor, check=False).returncode or code


def run_all(work: Path) -> int:
    """Run everything, each cloud in a directory of its own; the first failure gives the code."""
    raise_loopback()
    directories = guests, hosts, retypes, shares = [
        work / name for name in ("guests", "hosts", "retypes", "shares")
    ]
    for directory in directories:
        directory.mkdir()
    with guests_cloud(guests) as cloud:
        code = run((REBUILD, OTHERS, RESCUES), cloud, guests, PORT)
    with hosts_cloud(hosts) as cloud:
        code = run((API, PICTURES, MANAGERS), cloud, hosts, CLOUD_PORT) or code
    with stored_cloud(retypes, TWO_POOLS) as cloud:
        code = run((RETYPES,), cloud, retypes, CLOUD_PORT) or code
    with stored_cloud(shares, POOLS) as cloud:
        return run((SHARES,), cloud, shares, CLOUD_PORT) or code


def main() -> int:
    """Run it all in a directory that is kept only when something failed."""
    work = Path(tempfile.mkdtemp(prefix="mooring-tempest-"))
    code = run_all(work)
    if code:
        sys.stdout.write(f"tempest: failed; logs and configuration are in {work}\n")
    else:
        shutil.rmtree(work)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
