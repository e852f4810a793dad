"""The Mooring that the real services run beside: two pools that the hosts of Nova reach, too."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.beside.network import CLOUD, CLOUD_PORT
from tests.contract.clients import Cloud

POOLS = ("first", "second")
SHARE_POOLS = """
[[share_pools]]
name = "files"
driver = "directory"

[[share_pools]]
name = "ceph"
driver = "simulated"
protocol = "CEPHFS"
"""


def write_storage(work: Path, hosts: tuple[str, ...]) -> Path:
    """Write the pools: of volumes, on directories that Nova's hosts see, and of shares."""
    named = ", ".join(f'"{host}"' for host in hosts)
    storage = work / "storage.toml"
    pools = (
        f'[[pools]]\nname = "{pool}"\npath = "{pool}"\n'
        f'driver = "directory"\nformat = "raw"\nhosts = [{named}]\n'
        for pool in POOLS
    )
    storage.write_text("\n".join([*pools, SHARE_POOLS]), "utf-8")
    return storage


@contextmanager
def run_cloud(work: Path, settings: Mapping[str, str], *, hosts: int = 1) -> Generator[Cloud]:
    """Run a Mooring with settings of the environment until the context is left."""
    given = {"MOORING_PUBLIC_URL": CLOUD, **settings}
    os.environ.update(given)
    try:
        listen = f"127.0.0.1:{CLOUD_PORT}"
        cloud = Cloud(work / "state", work / "cloud.log", listen=listen, hosts=hosts)
    finally:
        for name in given:
            del os.environ[name]
    try:
        yield cloud
    finally:
        cloud.stop()


def passwords_of(cloud: Cloud) -> dict[str, str]:
    """Return the passwords of the services' users, by their names."""
    return json.loads((cloud.state_dir / "passwords.json").read_text("utf-8"))


def share_addresses(cloud: Cloud) -> dict[str, str]:
    """Return from which address each simulated host mounts shares, by the hosts' names."""
    files = (cloud.state_dir / "hosts").glob("*/storage.toml")
    return {
        file.parent.name: tomllib.loads(file.read_text("utf-8"))["mounts"]["shares"][
            "share_address"
        ]
        for file in files
    }


def point(cloud: Cloud, service: str, url: str) -> None:
    """Let the catalogue name another address for a service, in all its interfaces."""
    admin, path = cloud.http("admin"), "/identity/v3"
    (found,) = admin.ask("GET", f"{path}/services?type={service}").key("services")
    listed = admin.ask("GET", f"{path}/endpoints?service_id={found['id']}").key("endpoints")
    for endpoint in listed:
        changed = {"endpoint": {"url": url}}
        admin.ask("PATCH", f"{path}/endpoints/{endpoint['id']}", changed).key("endpoint")
