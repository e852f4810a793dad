"""The stock `openstack` command against our identity service, over a real socket."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from mooring.clock import RealClock
from mooring.identity import bootstrap, own
from mooring.identity.app import SERVICE
from mooring.identity.keys import TokenKeys
from mooring.identity.passwords import Hasher
from mooring.identity.service import Identity
from mooring.identity.tokens import LocalValidator
from mooring.saga.seal import load_sealer
from mooring.store.base import open_store
from tests.contract.command import run_command

pytestmark = [pytest.mark.anyio, pytest.mark.contract]


class Refused(Exception):
    """The command ended with an error; its text is what a person reads."""


class Shell:
    """Runs `openstack` as one user."""

    def __init__(self, url: str, user: str, password: str, project: str) -> None:
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "OS_AUTH_URL": f"{url}/v3",
            "OS_USERNAME": user,
            "OS_PASSWORD": password,
            "OS_PROJECT_NAME": project,
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
            "OS_IDENTITY_API_VERSION": "3",
        }

    async def run(self, *words: str) -> str:
        done = await asyncio.to_thread(run_command, words, self.environment, timeout_s=240)
        if done.returncode:
            raise Refused(done.stderr)
        return done.stdout

    async def ask(self, *words: str) -> Any:
        return json.loads(await self.run(*words, "-f", "json"))


class Cloud:
    def __init__(self, url: str, passwords: dict[str, str]) -> None:
        self.url, self.passwords = url, passwords

    def shell(self, user: str, project: str = "", password: str = "") -> Shell:
        return Shell(self.url, user, password or self.passwords[user], project or user)


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[Cloud]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/identity"
        identity = Identity(
            store=await open_store(str(tmp_path), "identity"),
            clock=RealClock(),
            keys=TokenKeys(tmp_path / "token-keys"),
            sealer=load_sealer(tmp_path / "seal.key"),
            hasher=Hasher(rounds=4),
        )
        urls = {"identity": f"{url}/v3", "compute": "http://127.0.0.1:1/compute/v2.1"}
        passwords = await bootstrap.ensure(identity, urls=urls)
        app = SERVICE.build(
            identity,
            validator=LocalValidator(identity),
            public_url=url,
            identity_url=f"{url}/v3",
        )
        config = uvicorn.Config(app, lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield Cloud(url, passwords)
        server.should_exit = True
        await serving
        await identity.store.close()


async def test_a_token_is_issued_and_the_catalogue_shown(cloud: Cloud) -> None:
    demo = cloud.shell("demo")
    token = await demo.ask("token", "issue")
    assert len(token["id"]) <= 255
    assert len(token["project_id"]) == len(token["user_id"]) == 32
    catalogue = {row["Type"]: row["Endpoints"] for row in await demo.ask("catalog", "list")}
    assert {point["interface"] for point in catalogue["compute"]} == {"public", "internal", "admin"}


async def test_a_wrong_password_is_said_to_be_one(cloud: Cloud) -> None:
    with pytest.raises(Refused, match=r"requires authentication.*HTTP 401"):
        await cloud.shell("demo", password="wrong").run("token", "issue")


async def test_a_project_with_a_user_is_set_up_and_taken_down(cloud: Cloud) -> None:
    admin = cloud.shell("admin")
    project = await admin.ask("project", "create", "blue", "--description", "sea")
    user = await admin.ask("user", "create", "ann", "--password", "secret", "--email", "a@b")
    assert (user["name"], user["email"], user["enabled"]) == ("ann", "a@b", True)
    await admin.run("role", "create", "sailor")
    await admin.run("role", "add", "--user", "ann", "--project", "blue", "member")
    ann = cloud.shell("ann", "blue", "secret")
    assert (await ann.ask("token", "issue"))["project_id"] == project["id"]
    [row] = await admin.ask("role", "assignment", "list", "--user", "ann", "--names")
    assert (row["Role"], row["Project"]) == ("member", "blue@Default")
    await admin.run("project", "set", "blue", "--description", "deep sea")
    assert (await admin.ask("project", "show", "blue"))["description"] == "deep sea"
    await admin.run("user", "set", "ann", "--password", "another")
    with pytest.raises(Refused, match="401"):
        await ann.run("token", "issue")
    await admin.run("role", "remove", "--user", "ann", "--project", "blue", "member")
    await admin.run("user", "delete", "ann")
    await admin.run("project", "delete", "blue")
    await admin.run("role", "delete", "sailor")


async def test_a_domain_with_a_group_is_set_up_and_taken_down(cloud: Cloud) -> None:
    """The commands of docs/domains.md."""
    admin = cloud.shell("admin")
    await admin.run("domain", "create", "blue")
    await admin.run("project", "create", "--domain", "blue", "web")
    await admin.run("group", "create", "--domain", "blue", "crew")
    await admin.run("user", "create", "--domain", "blue", "--password", "secret", "ann")
    whose = ("--group-domain", "blue", "--user-domain", "blue", "crew", "ann")
    await admin.run("group", "add", "user", *whose)
    await admin.run("role", "create", "operator")
    await admin.run("implied", "role", "create", "operator", "--implied-role", "reader")
    place = ("--group-domain", "blue", "--project-domain", "blue", "--group", "crew")
    await admin.run("role", "add", *place, "--project", "web", "operator")
    ann = cloud.shell("ann", "web", "secret")
    ann.environment |= {"OS_USER_DOMAIN_NAME": "blue", "OS_PROJECT_DOMAIN_NAME": "blue"}
    for name in ("OS_USER_DOMAIN_ID", "OS_PROJECT_DOMAIN_ID"):
        del ann.environment[name]
    token = await ann.ask("token", "issue")
    assert "in group" in await admin.run("group", "contains", "user", *whose)
    rows = await admin.ask("role", "assignment", "list", "--effective", "--names")
    assert {row["Role"] for row in rows if row["Project"] == "web@blue"} == {"operator", "reader"}
    [row] = await admin.ask("role", "assignment", "list", *place[:2], "--group", "crew", "--names")
    assert (row["Group"], row["Role"]) == ("crew@blue", "operator")
    with pytest.raises(Refused, match="is enabled"):
        await admin.run("domain", "delete", "blue")
    await admin.run("domain", "set", "--disable", "blue")
    with pytest.raises(Refused, match="401"):
        await ann.run("token", "issue")
    await admin.run("domain", "delete", "blue")
    with pytest.raises(Refused, match="No Project found"):
        await admin.run("project", "show", token["project_id"])


async def test_a_limit_is_registered_set_for_a_project_and_deleted(cloud: Cloud) -> None:
    admin = cloud.shell("admin")
    place = ("--service", "compute", "--region", "RegionOne")
    words = ("--default-limit", "10", "--description", "of all", "servers")
    registered = await admin.ask("registered", "limit", "create", *place, *words)
    assert (registered["default_limit"], registered["region_id"]) == (10, "RegionOne")
    words = ("--project", "demo", "--resource-limit", "3", "servers")
    limit = await admin.ask("limit", "create", *place, *words)
    assert (limit["resource_limit"], limit["service_id"]) == (3, registered["service_id"])
    [row] = await admin.ask("registered", "limit", "list", *place, "--resource-name", "servers")
    assert (row["ID"], row["Default Limit"]) == (registered["id"], 10)
    [row] = await admin.ask("limit", "list", *place, "--project", "demo")
    assert (row["ID"], row["Resource Limit"]) == (limit["id"], 3)
    [row] = await cloud.shell("demo").ask("limit", "list")
    assert row["ID"] == limit["id"]
    with pytest.raises(Refused, match="403"):
        await admin.run("registered", "limit", "delete", registered["id"])
    await admin.run("limit", "set", limit["id"], "--resource-limit", "-1", "--description", "any")
    shown = await admin.ask("limit", "show", limit["id"])
    assert (shown["resource_limit"], shown["description"]) == (-1, "any")
    await admin.run("limit", "delete", limit["id"])
    words = ("--default-limit", "4", "--resource-name", "guests", "--region", "RegionOne")
    await admin.run("registered", "limit", "set", registered["id"], *words)
    shown = await admin.ask("registered", "limit", "show", registered["id"])
    assert (shown["default_limit"], shown["resource_name"]) == (4, "guests")
    await admin.run("registered", "limit", "delete", registered["id"])
    assert await admin.ask("registered", "limit", "list") == []


async def test_everything_is_listed(cloud: Cloud) -> None:
    admin = cloud.shell("admin")
    names = {row["Name"] for row in await admin.ask("user", "list")}
    assert names == {"admin", "demo", *own.SERVICE_USERS}
    assert {row["Name"] for row in await admin.ask("project", "list")} == set(bootstrap.PROJECTS)
    assert {row["Name"] for row in await admin.ask("role", "list")} == set(bootstrap.ROLES)
    assert {row["Type"] for row in await admin.ask("service", "list")} == {"identity", "compute"}
    assert len(await admin.ask("endpoint", "list")) == 6
    assert [row["Region"] for row in await admin.ask("region", "list")] == ["RegionOne"]
    assert [row["Name"] for row in await admin.ask("domain", "list")] == ["Default"]


async def test_an_application_credential_logs_in(cloud: Cloud) -> None:
    demo = cloud.shell("demo")
    made = await demo.ask("application", "credential", "create", "key")
    key = cloud.shell("demo")
    key.environment = {
        "PATH": key.environment["PATH"],
        "HOME": key.environment["HOME"],
        "OS_AUTH_URL": key.environment["OS_AUTH_URL"],
        "OS_AUTH_TYPE": "v3applicationcredential",
        "OS_APPLICATION_CREDENTIAL_ID": made["ID"],
        "OS_APPLICATION_CREDENTIAL_SECRET": made["Secret"],
    }
    assert (await key.ask("token", "issue"))["project_id"] == made["Project ID"]
    listed = await demo.ask("application", "credential", "list")
    assert [row["Name"] for row in listed] == ["key"]
    await demo.run("application", "credential", "delete", "key")
    with pytest.raises(Refused, match="401"):
        await key.run("token", "issue")


async def test_a_member_is_refused_what_is_not_its_business(cloud: Cloud) -> None:
    with pytest.raises(Refused, match="403"):
        await cloud.shell("demo").run("user", "list")
