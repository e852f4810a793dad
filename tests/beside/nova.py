"""A real Nova beside Mooring, configured as docs/beside-openstack.md says."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.beside.network import NOVA_PORT
from tests.beside.programs import PROGRAMS, READY_S, Failed, Running, run, serve, write_ini
from tests.beside.services import Beside, database, login, make_databases, middleware

HOSTS = ("nova-1", "nova-2", "nova-3")
ADDRESSES = {host: f"192.0.2.{number}" for number, host in enumerate(HOSTS, 1)}
"""From which addresses they mount shares, by which rules tell them apart."""
FILES = "api-paste.ini;nova.conf"
DATABASES = ("nova_api", "nova_cell0", "nova")


def _configure(at: Beside, host: str) -> Path:
    """Write the configuration of one host's services."""
    home, mine = at.home / host, login("compute", at.passwords)
    home.mkdir(parents=True)
    sections: dict[str, dict[str, str]] = {
        "DEFAULT": {
            "transport_url": at.broker,
            "compute_driver": "fake.FakeLiveMigrateDriver",
            "host": host,
            "my_ip": "127.0.0.1",
            "my_shared_fs_storage_ip": ADDRESSES.get(host, "127.0.0.1"),
            "state_path": str(home),
            "debug": "false",
            "report_interval": "2",
            "service_down_time": "10",
            "rpc_response_timeout": "60",
        },
        "api": {"auth_strategy": "keystone"},
        "oslo_concurrency": {"lock_path": str(home / "locks")},
        "database": {"connection": database(at.postgres, "nova")},
        "api_database": {"connection": database(at.postgres, "nova_api")},
        "keystone_authtoken": middleware(mine),
        "service_user": {**mine, "send_service_user_token": "true"},
        "placement": mine,
        "glance": mine,
        "cinder": {**mine, "catalog_info": "block-storage:cinder:publicURL"},
        "neutron": mine,
        "manila": mine,
        "vnc": {"enabled": "false"},
        "conductor": {"workers": "1"},
        "scheduler": {"workers": "1"},
    }
    return write_ini(home / "nova.conf", sections)


def _prepare(at: Beside, conf: Path) -> None:
    """Make Nova's databases and cells, as its manual says."""
    manage = (PROGRAMS / "nova-manage", "--config-file", conf)
    make_databases(at.postgres, DATABASES)
    run(at.home, *manage, "api_db", "sync")
    cell0 = database(at.postgres, "nova_cell0")
    run(at.home, *manage, "cell_v2", "map_cell0", "--database_connection", cell0)
    run(at.home, *manage, "cell_v2", "create_cell", "--name", "cell1")
    run(at.home, *manage, "db", "sync")


class Nova:
    """A running Nova: its API, conductor and scheduler, and a `nova-compute` for each host."""

    def __init__(self, at: Beside, running: Running) -> None:
        """Start all of it, and see its hosts in their cell."""
        self.at, self.running = at, running
        self.confs = {name: _configure(at, name) for name in ("control", *HOSTS)}
        control = self.confs["control"]
        _prepare(at, control)
        for name in ("nova-conductor", "nova-scheduler"):
            running.start(name, PROGRAMS / name, "--config-file", control)
        files = {"OS_NOVA_CONFIG_DIR": str(control.parent), "OS_NOVA_CONFIG_FILES": FILES}
        paste = PROGRAMS.parent / "etc/nova/api-paste.ini"
        (control.parent / "api-paste.ini").symlink_to(paste)
        serve(running, "nova.wsgi.osapi_compute", NOVA_PORT, files)
        for host in HOSTS:
            self.start_compute(host)
        running.until_answers(NOVA_PORT)
        self._discover()

    def start_compute(self, host: str) -> None:
        """Start a host's `nova-compute`."""
        program = PROGRAMS / "nova-compute"
        self.running.start(host, program, "--config-file", self.confs[host])

    def _discover(self) -> None:
        """Wait until every host is known to its cell. Raises Failed."""
        manage = (PROGRAMS / "nova-manage", "--config-file", self.confs["control"], "cell_v2")
        deadline = time.monotonic() + READY_S
        while True:
            run(self.at.home, *manage, "discover_hosts")
            listed = run(self.at.home, *manage, "list_hosts")
            if all(host in listed for host in HOSTS):
                return
            self.running.check()
            if time.monotonic() > deadline:
                raise Failed(f"Nova does not know its hosts:\n{listed}")


@contextmanager
def run_nova(at: Beside) -> Generator[Nova]:
    """Run a Nova until the context is left."""
    with Running(at.home) as running:
        yield Nova(at, running)
