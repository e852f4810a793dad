"""What every real service is told of the cloud that it runs beside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import psycopg

from tests.beside.network import CLOUD
from tests.postgres import Server


class Beside(NamedTuple):
    """What a real service needs of those around it."""

    home: Path
    broker: str
    postgres: Server
    passwords: Mapping[str, str]


def login(user: str, passwords: Mapping[str, str]) -> dict[str, str]:
    """Return what a service says of itself to identity."""
    return {
        "auth_type": "password",
        "auth_url": f"{CLOUD}/identity/v3",
        "username": user,
        "password": passwords[user],
        "project_name": "service",
        "user_domain_id": "default",
        "project_domain_id": "default",
    }


def middleware(mine: Mapping[str, str]) -> dict[str, str]:
    """Return what keystonemiddleware is told."""
    return {
        **mine,
        "www_authenticate_uri": f"{CLOUD}/identity/v3",
        "service_token_roles": "service",
        "service_token_roles_required": "true",
    }


def make_databases(server: Server, names: tuple[str, ...]) -> None:
    """Make empty databases."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE DATABASE {name}".encode())


def database(server: Server, name: str) -> str:
    """Return the address of a database for SQLAlchemy with psycopg2."""
    return f"postgresql+psycopg2://mooring@/{name}?host={server.directory}"
