"""The audit log says who did what, and from where; it is bounded, and its owner's alone."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mooring import row_limits
from mooring.web import audit
from tests.cloud import URL, SimulatedCloud

pytestmark = pytest.mark.anyio
_DEFAULT = {"id": "default"}


def lines(cloud: SimulatedCloud) -> list[dict[str, Any]]:
    file = cloud.settings.state_path / audit.FILE
    return [json.loads(line) for line in file.read_text().splitlines()]


def told(cloud: SimulatedCloud, what: str) -> list[dict[str, Any]]:
    """Lines of one kind that are not of services' own logins."""
    return [line for line in lines(cloud) if line["what"] == what and line["status"] != 201]


async def log_in(cloud: SimulatedCloud, name: str, password: str) -> int:
    user = {"name": name, "domain": _DEFAULT, "password": password}
    proof = {"methods": ["password"], "password": {"user": user}}
    answer = await cloud.ask("POST", "/identity/v3/auth/tokens", {"auth": {"identity": proof}})
    return answer.status


async def test_logins_and_refused_ones_tell_who_and_from_where(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path, hosts=()) as cloud:
        passwords = json.loads((tmp_path / "passwords.json").read_text())
        assert await log_in(cloud, "demo", passwords["demo"]) == 201
        assert await log_in(cloud, "demo", "guessed") == 401
        login = [line for line in lines(cloud) if line.get("user") == "demo"][-1]
        assert (login["what"], login["by"], login["service"]) == ("login", "password", "identity")
        assert login["address"]
        assert login["request_id"].startswith("req-")
        [refused] = told(cloud, "refused")
        assert (refused["status"], refused["path"]) == (401, "/identity/v3/auth/tokens")
        assert login["user_id"] in refused["reason"]
        text = (tmp_path / audit.FILE).read_text()
        assert passwords["demo"] not in text
        assert "guessed" not in text
    assert stat.S_IMODE((tmp_path / audit.FILE).stat().st_mode) == 0o600


async def test_roles_resets_and_refusals_are_told(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path) as cloud:
        admin: dict[str, Any] = {"user": "admin"}
        found = (await cloud.ask("GET", "/identity/v3/users?name=demo", **admin)).body["users"]
        roles = (await cloud.ask("GET", "/identity/v3/roles?name=manager", **admin)).body["roles"]
        projects = await cloud.ask("GET", "/identity/v3/projects?name=demo", **admin)
        path = (
            f"/identity/v3/projects/{projects.body['projects'][0]['id']}"
            f"/users/{found[0]['id']}/roles/{roles[0]['id']}"
        )
        assert (await cloud.ask("PUT", path, **admin)).status == 204
        assert (await cloud.ask("PUT", path, user="demo")).status == 403
        made = await cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
        await cloud.settle()
        volume = f"/volume/v3/volumes/{made.body['volume']['id']}/action"
        reset = {"os-reset_status": {"status": "error"}}
        assert (await cloud.ask("POST", volume, reset, **admin)).status == 202
        assert (await cloud.ask("POST", volume, reset, user="demo")).status == 403
        [change] = told(cloud, "change")
        assert (change["method"], change["path"], change["user"]) == ("PUT", path, "admin")
        [done] = told(cloud, "reset")
        assert (done["action"], done["user"], done["path"]) == ("os-reset_status", "admin", volume)
        refused = [(line["user"], line["path"]) for line in told(cloud, "refused")]
        assert refused == [("demo", path), ("demo", volume)]
        assert all(line["address"] and line["request_id"] for line in lines(cloud))
        await cloud.settle()


async def test_a_full_file_is_kept_beside_the_next_and_the_oldest_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_limits, "AUDIT_FILE_BYTES", 300)
    async with SimulatedCloud(tmp_path, hosts=()) as cloud:
        for _ in range(20):
            assert (await cloud.ask("POST", "/identity/v3/users", {}, user="demo")).status == 403
    there = await asyncio.to_thread(lambda: list(tmp_path.glob(f"{audit.FILE}*")))
    kept = sorted(path.name for path in there)
    assert kept == [audit.FILE, *(f"{audit.FILE}.{number}" for number in range(1, 5))]


async def test_a_file_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path, hosts=()) as cloud:
        (tmp_path / audit.FILE).unlink(missing_ok=True)
        (tmp_path / audit.FILE).mkdir()
        assert (await cloud.ask("POST", "/identity/v3/users", {}, user="demo")).status == 403


async def test_who_shows_no_token_pushes_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_limits, "AUDIT_FILE_BYTES", 2000)
    async with SimulatedCloud(tmp_path, hosts=()) as cloud:
        assert await log_in(cloud, "demo", "guessed") == 401
        before = lines(cloud)
        for number in range(40):
            path = f"/volume/v3/{number}" + "x" * 5000
            assert (await cloud.ask("GET", path, user="")).status == 401
        assert lines(cloud)[: len(before)] == before
        strangers = tmp_path / audit.STRANGERS
        kept = [json.loads(line) for line in strangers.read_text().splitlines()]
        assert kept
        assert all(len(line["path"]) <= 500 for line in kept)
        assert stat.S_IMODE(strangers.stat().st_mode) == 0o600


async def beside(
    cloud: SimulatedCloud, method: str, path: str, body: Any = None, *, user: str = "admin"
) -> int:
    """Ask what is no service; return the status."""
    transport = httpx2.ASGITransport(app=cloud.cloud.app)
    headers = {"x-auth-token": await cloud.token(user)}
    async with httpx2.AsyncClient(transport=transport, base_url=URL) as client:
        answer = await client.request(method, path, json=body, headers=headers)
    return answer.status_code


async def test_what_is_done_to_hosts_operations_and_by_the_doctor_is_told(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path) as cloud:
        admin: dict[str, Any] = {"user": "admin"}
        path = "/compute/v2.1/os-services"
        services = (await cloud.ask("GET", path, version="2.53", **admin)).body["services"]
        one = f"{path}/{services[0]['id']}"
        down = {"forced_down": True}
        assert (await cloud.ask("PUT", one, down, version="2.53", **admin)).status == 200
        operation = "/compute/v2.1/mooring/operations/00000000-0000-4000-8000-000000000000/action"
        assert (await cloud.ask("POST", operation, {"abort": None}, **admin)).status == 404
        assert await beside(cloud, "POST", "/mooring/doctor") == 200
        assert await beside(cloud, "GET", "/mooring/doctor") == 200
        invited = {"name": "h2", "roles": ["compute"]}
        assert await beside(cloud, "POST", "/mooring/hosts", invited) == 409
        assert await beside(cloud, "DELETE", "/mooring/hosts/h2", user="demo") == 403
        [shut, host] = told(cloud, "host")
        assert (shut["path"], shut["status"], shut["user"]) == (one, 200, "admin")
        assert (host["path"], host["status"], host["user"]) == ("/mooring/hosts", 409, "admin")
        [aborted] = told(cloud, "operation")
        assert (aborted["action"], aborted["path"]) == ("abort", operation)
        [mended] = told(cloud, "mend")
        assert (mended["path"], mended["user"]) == ("/mooring/doctor", "admin")
        [refused] = told(cloud, "refused")
        assert (refused["host"], refused["status"], refused["user"]) == ("h2", 403, "demo")
