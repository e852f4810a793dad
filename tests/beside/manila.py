"""A real Manila beside Mooring, configured as docs/beside-openstack.md says.

Its storage is that of Mooring's simulated hosts, which `in_manila/simulated_storage.py` writes to.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mooring.agent.simulated_share_pool import open_pool
from tests.beside.network import MANILA_PORT
from tests.beside.programs import PROGRAMS, SITE, Running, run, serve, write_ini
from tests.beside.services import Beside, database, login, make_databases, middleware

SHARE = "manila-share"
RULE_S = 1.0
"""How long its storage takes to let somebody in, or keep somebody out."""


def _configure(at: Beside) -> Path:
    """Write Manila's configuration."""
    home, mine = at.home, login("share", at.passwords)
    sections: dict[str, dict[str, str]] = {
        "DEFAULT": {
            "transport_url": at.broker,
            "host": "manila",
            "my_ip": "127.0.0.1",
            "state_path": str(home),
            "api_paste_config": str(PROGRAMS.parent / "etc/manila/api-paste.ini"),
            "auth_strategy": "keystone",
            "enabled_share_backends": "simulated",
            "enabled_share_protocols": "NFS,CEPHFS",
            "report_interval": "2",
            "periodic_interval": "2",
        },
        "simulated": {
            "share_driver": "simulated_storage.SimulatedStorage",
            "share_backend_name": "simulated",
            "driver_handles_share_servers": "false",
            "dummy_driver_default_driver_method_delay": "0.1",
            "dummy_driver_driver_methods_delays": f"update_access:{RULE_S}",
        },
        "coordination": {"backend_url": f"file://{home}/coordination"},
        "oslo_concurrency": {"lock_path": str(home / "locks")},
        "database": {"connection": database(at.postgres, "manila")},
        "keystone_authtoken": middleware(mine),
    }
    return write_ini(home / "manila.conf", sections)


class Manila:
    """A running Manila: its API, scheduler, and `manila-share`."""

    def __init__(self, at: Beside, running: Running) -> None:
        """Start all of it."""
        self.running, self._conf = running, _configure(at)
        self._storage = at.home / "storage"
        open_pool(self._storage).close()
        make_databases(at.postgres, ("manila",))
        run(at.home, PROGRAMS / "manila-manage", "--config-file", self._conf, "db", "sync")
        self.start("manila-scheduler")
        self.start(SHARE)
        # It looks for its configuration in the home directory, and at no variable.
        serve(running, "manila.wsgi.api", MANILA_PORT, {})
        running.until_answers(MANILA_PORT)

    def start(self, name: str) -> None:
        """Start one of its programs."""
        extra = {"PYTHONPATH": str(SITE / "in_manila"), "SIMULATED_STORAGE": str(self._storage)}
        self.running.start(name, PROGRAMS / name, "--config-file", self._conf, extra=extra)

    @contextmanager
    def refusing(self) -> Generator[None]:
        """Let its storage let nobody in, until the context is left."""
        sign = self._storage.with_name("storage.refuses")
        sign.touch()
        try:
            yield
        finally:
            sign.unlink()


@contextmanager
def run_manila(at: Beside) -> Generator[Manila]:
    """Run a Manila until the context is left."""
    with Running(at.home) as running:
        yield Manila(at, running)
