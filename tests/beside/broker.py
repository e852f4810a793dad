"""A RabbitMQ of the run's own, with all of its files in one directory."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.beside.network import BROKER_PORT
from tests.beside.programs import Running

URL = f"rabbit://guest:guest@127.0.0.1:{BROKER_PORT}/"
MAPPER_PORT = 4369
"""Where Erlang's programs find each other."""
SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


def missing() -> str:
    """Return why there can be no broker here; "" where there can."""
    if SERVER.exists():
        return ""
    return "RabbitMQ is missing here (Debian's package rabbitmq-server)"


@contextmanager
def run_broker(home: Path) -> Generator[str]:
    """Run one until the context is left; give the address for oslo.messaging."""
    with Running(home) as running:
        (home / ".erlang.cookie").write_text(secrets.token_hex(), "utf-8")
        (home / ".erlang.cookie").chmod(0o400)
        settings = home / "rabbitmq.conf"
        settings.write_text(f"listeners.tcp.local = 127.0.0.1:{BROKER_PORT}\n", "utf-8")
        extra = {
            "RABBITMQ_NODENAME": "beside@localhost",
            "RABBITMQ_CONFIG_FILE": str(settings),
            "RABBITMQ_CONF_ENV_FILE": str(home / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        # RabbitMQ would start one that outlives it.
        running.start("epmd", "epmd", extra=extra)
        running.until_answers(MAPPER_PORT)
        running.start("rabbitmq", SERVER, extra=extra)
        running.until_answers(BROKER_PORT)
        yield URL
