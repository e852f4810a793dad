"""Serial consoles: who gets a URL, what a token is good for, and what comes by websocket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace
from sqlalchemy import func, select
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mooring import http_limits
from mooring.agent import serial_sessions, serving
from mooring.agent.serial_sessions import Sessions
from mooring.agent_api.serial import SerialInput
from mooring.agent_api.transport import Forward, Request, Response
from mooring.compute.tables import ConsoleToken
from mooring.store.limits import COMPUTE_CONSOLE_TOKENS
from tests.compute.cloud import ComputeCloud
from tests.compute.consoles import WANTED, Consoles, console_url, consoles_of, hears, token_of
from tests.compute.moving import server_that_moves
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def consoles(cloud: ComputeCloud) -> AsyncGenerator[Consoles]:
    async with consoles_of(cloud) as opened:
        yield opened


def sessions(cloud: ComputeCloud, host: str = "host1") -> Sessions:
    return cloud.agents[host].agent.serial


async def until_closed(cloud: ComputeCloud) -> None:
    async def holds() -> bool:
        return not sessions(cloud).count

    await until(holds, "the host lets go of the console")


async def tokens(cloud: ComputeCloud) -> int:
    query = select(func.count()).select_from(ConsoleToken)
    return await cloud.compute.store.read(lambda tx: tx.execute(query).scalar() or 0)


async def refusal(consoles: Consoles, url: str, **how: Any) -> tuple[int, str]:
    """Return how a console that is not opened is refused."""
    with pytest.raises(InvalidStatus) as refused:
        async with consoles.open(url, **how):
            pass
    response = refused.value.response
    return response.status_code, bytes(response.body or b"").decode()


async def ended(console: Any) -> tuple[int, str]:
    """Return how a console was closed by the cloud."""
    with pytest.raises(ConnectionClosed) as closed:
        await hears(console, b"what it never says")
    rcvd = closed.value.rcvd
    assert rcvd is not None
    return rcvd.code, rcvd.reason


async def test_what_is_typed_is_echoed_and_stands_in_the_console(
    cloud: ComputeCloud, consoles: Consoles
) -> None:
    server_id = await cloud.make_server()
    url = await console_url(cloud, server_id)
    assert url.startswith("ws://cloud/websockify?token=")
    async with consoles.open(url) as console:
        assert console.subprotocol == "binary"
        await console.send(b"by bytes\r")
        assert await hears(console, b"by bytes\r\n") == b"by bytes\r\n"
        await console.send("by text")
        await hears(console, b"by text")
        # A long paste comes whole, and in its order.
        paste = b"".join(b"%07d\r" % number for number in range(5000))
        await console.send(paste)
        assert (await hears(console, b"0004999")).replace(b"\r\n", b"\r")[:-1] in paste
    said = await cloud.known_agents["host1"].read_console(server_id)
    assert "by bytes" in said
    assert "by text" in said
    await until_closed(cloud)


async def test_clients_of_before_2_6_get_one_by_an_action(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    path, wanted = f"/servers/{server_id}/action", {"os-getSerialConsole": {"type": "serial"}}
    answer = await cloud.ask("POST", path, wanted, version="2.5")
    assert answer.status == 200
    assert answer.body["console"]["type"] == "serial"
    assert "token=" in answer.body["console"]["url"]
    assert (await cloud.ask("POST", path, wanted, version="2.6")).status == 404


@pytest.mark.parametrize(
    ("protocol", "kind", "version", "status"),
    [
        ("vnc", "novnc", "2.6", 501),
        ("spice", "spice-html5", "2.6", 501),
        ("spice", "spice-direct", "2.99", 501),
        ("spice", "spice-direct", "2.98", 400),
        ("mks", "webmks", "2.7", 400),
        ("mks", "webmks", "2.8", 501),
        ("serial", "novnc", "2.6", 400),
        ("telnet", "serial", "2.6", 400),
    ],
)
async def test_other_consoles_are_refused(
    cloud: ComputeCloud, protocol: str, kind: str, version: str, status: int
) -> None:
    server_id = await cloud.make_server()
    body = {"remote_console": {"protocol": protocol, "type": kind}}
    path = f"/servers/{server_id}/remote-consoles"
    answer = await cloud.ask("POST", path, body, version=version)
    assert answer.status == status, answer.text
    assert await tokens(cloud) == 0


async def test_a_server_that_is_off_or_away_has_no_console(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    assert await cloud.act(server_id, "os-stop") == 202
    await cloud.settle()
    path = f"/servers/{server_id}/remote-consoles"
    answer = await cloud.ask("POST", path, WANTED)
    assert (answer.status, "only one that runs" in answer.text) == (409, True)
    # An administrator of the cloud sees every server, another project none of these.
    assert (await cloud.ask("POST", path, WANTED, user="stranger")).status in {403, 404}
    await cloud.hypervisor().remove(server_id)
    assert (await cloud.ask("POST", path, WANTED)).status == 404


async def test_administrators_see_what_a_token_is_good_for(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    path = f"/os-console-auth-tokens/{token_of(await console_url(cloud, server_id))}"
    shown = await cloud.ask("GET", path, user="admin", version="2.31")
    assert shown.body["console"] == {
        "instance_uuid": server_id,
        "host": "host1",
        "port": None,
        "internal_access_path": None,
    }
    assert (
        "tls_port" in (await cloud.ask("GET", path, user="admin", version="2.99")).body["console"]
    )
    assert (await cloud.ask("GET", path)).status == 403
    unknown = "/os-console-auth-tokens/unknown"
    assert (await cloud.ask("GET", unknown, user="admin")).status == 404


async def test_a_token_is_good_for_a_while_and_only_its_digest_is_kept(
    any_cloud: ComputeCloud,
) -> None:
    cloud = any_cloud
    server_id = await cloud.make_server()
    url = await console_url(cloud, server_id)

    def kept(tx: Any) -> str:
        return str(tx.execute(select(*ConsoleToken.__table__.columns)).one())

    assert token_of(url) not in await cloud.compute.store.read(kept)
    async with consoles_of(cloud) as consoles:
        for _ in range(2):
            async with consoles.open(url):
                pass
        await cloud.pass_time(cloud.compute.settings.console_token_s + 1)
        await cloud.look_at_hosts()
        assert (await refusal(consoles, url))[0] == 403
    for _ in range(COMPUTE_CONSOLE_TOKENS + 3):
        url = await console_url(cloud, server_id)
    assert await tokens(cloud) == COMPUTE_CONSOLE_TOKENS
    await cloud.pass_time(cloud.compute.settings.console_token_s + 1)
    await cloud.cloud.prune()
    assert await tokens(cloud) == 0


async def test_a_token_is_no_good_once_its_server_is_deleted(
    cloud: ComputeCloud, consoles: Consoles
) -> None:
    server_id = await cloud.make_server()
    url = await console_url(cloud, server_id)
    async with consoles.open(url) as console:
        await cloud.ask("DELETE", f"/servers/{server_id}")
        await cloud.settle()
        code, why = await ended(console)
        assert code == 1001
        assert "gone" in why
    status, said = await refusal(consoles, url)
    assert (status, "Ask for a new console URL" in said) == (403, True)


async def test_a_console_ends_with_a_move_and_its_token_as_well(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path, hosts=("host1", "host2")) as cloud:
        moving = await server_that_moves(cloud)
        url = await console_url(cloud, moving.server_id)
        async with consoles_of(cloud) as consoles:
            async with consoles.open(url) as console:
                await moving.move()
                code, why = await ended(console)
                assert (code, "another host" in why) == (1001, True)
            assert (await refusal(consoles, url))[0] == 403
            path = f"/os-console-auth-tokens/{token_of(url)}"
            assert (await cloud.ask("GET", path, user="admin")).status == 404
            async with consoles.open(await console_url(cloud, moving.server_id)) as console:
                await console.send(b"moved\r")
                await hears(console, b"moved")


@pytest.mark.parametrize("query", ["", "?token=", "?token=abc", f"?token={'x' * 43}"])
async def test_nobody_comes_in_without_a_token(consoles: Consoles, query: str) -> None:
    assert (await refusal(consoles, f"ws://cloud/websockify{query}"))[0] == 403


async def test_only_one_path_is_served_by_websocket(consoles: Consoles) -> None:
    for path in ("/", "/compute/v2.1/servers", "/metrics", "/websockify/x"):
        assert (await refusal(consoles, f"ws://cloud{path}"))[0] == 403


async def test_a_page_of_another_place_opens_none(cloud: ComputeCloud, consoles: Consoles) -> None:
    url = await console_url(cloud, await cloud.make_server())
    for origin in ("https://evil.example", "null", "//["):
        assert (await refusal(consoles, url, origin=origin))[0] == 403
    own = urlsplit(url)._replace(scheme="http", path="", query="")
    for origin in (own.geturl(), own._replace(netloc=consoles.place).geturl()):
        async with consoles.open(url, origin=origin):
            pass


async def test_a_token_may_come_as_a_cookie(cloud: ComputeCloud, consoles: Consoles) -> None:
    url = await console_url(cloud, await cloud.make_server())
    cookie = {"Cookie": f"token={token_of(url)}"}
    async with consoles.open("ws://cloud/websockify", additional_headers=cookie) as console:
        await console.send(b"hello\r")
        await hears(console, b"hello")


async def test_who_opens_a_console_takes_it_over(cloud: ComputeCloud, consoles: Consoles) -> None:
    url = await console_url(cloud, await cloud.make_server())
    async with consoles.open(url) as first, consoles.open(url) as second:
        code, why = await ended(first)
        assert (code, why) == (1001, "Somebody else has opened this console.")
        await second.send(b"mine now\r")
        await hears(second, b"mine now")


async def test_there_are_only_so_many(
    cloud: ComputeCloud, consoles: Consoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await console_url(cloud, await cloud.make_server())
    another = await console_url(cloud, await cloud.make_server())
    monkeypatch.setattr(http_limits, "CONSOLES", 1)
    async with consoles.open(url):
        assert await refusal(consoles, another) == (
            503,
            "Too many consoles are open. Close one, then try again.",
        )
    monkeypatch.undo()
    monkeypatch.setattr(serial_sessions, "AGENT_SERIAL_SESSIONS", 0)
    status, said = await refusal(consoles, another)
    assert (status, "of this host are open" in said) == (503, True)


async def test_a_console_over_which_nothing_comes_ends(
    cloud: ComputeCloud, consoles: Consoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await console_url(cloud, await cloud.make_server())
    monkeypatch.setattr(http_limits, "CONSOLE_ASK_S", 0.05)
    monkeypatch.setattr(http_limits, "CONSOLE_IDLE_S", 0.2)
    async with consoles.open(url) as console:
        assert "for too long" in (await ended(console))[1]
    monkeypatch.setattr(http_limits, "CONSOLE_IDLE_S", 60.0)
    monkeypatch.setattr(http_limits, "CONSOLE_S", 0.2)
    async with consoles.open(url) as console:
        assert "open for too long" in (await ended(console))[1]
    await until_closed(cloud)


async def test_a_host_lets_go_of_a_console_whose_control_plane_is_gone(
    cloud: ComputeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_id = await cloud.make_server()
    monkeypatch.setattr(serial_sessions, "AGENT_SERIAL_SILENT_S", 0.1)
    await cloud.known_agents["host1"].open_serial(server_id)
    assert sessions(cloud).count == 1
    await until_closed(cloud)


async def test_a_console_ends_with_its_agent_and_is_opened_again(
    cloud: ComputeCloud, consoles: Consoles
) -> None:
    url = await console_url(cloud, await cloud.make_server())
    async with consoles.open(url) as console:
        # What an agent does as it stops; one that was killed knows of no session either.
        await sessions(cloud).close_all()
        assert (await ended(console))[0] == 1001
    async with consoles.open(url) as console:
        await console.send(b"still there\r")
        await hears(console, b"still there")


async def test_an_agent_of_the_release_before_is_told_of(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.path.endswith("/serial"):
            request = replace(request, target="/no-such-verb")
        return await forward(request)

    cloud.deliver_to_host = deliver
    answer = await cloud.ask("POST", f"/servers/{server_id}/remote-consoles", WANTED)
    assert (answer.status, "has no serial consoles" in answer.text) == (409, True)


async def test_the_audit_log_tells_who_opened_one(cloud: ComputeCloud, consoles: Consoles) -> None:
    server_id = await cloud.make_server()
    url = await console_url(cloud, server_id)
    async with consoles.open(url):
        pass
    log = await asyncio.to_thread((cloud.settings.state_path / "audit.log").read_text)
    lines = [line for line in log.splitlines() if '"what":"console"' in line]
    assert len(lines) == 2
    assert all(server_id in line for line in lines)
    assert token_of(url) not in log


async def test_a_console_is_opened_over_tls(cloud: ComputeCloud) -> None:
    url = await console_url(cloud, await cloud.make_server())
    async with consoles_of(cloud, is_tls=True) as consoles, consoles.open(url) as console:
        paste = b"".join(b"%07d\r" % number for number in range(5000))
        await console.send(paste)
        await hears(console, b"0004999")


async def test_a_control_plane_that_stops_hangs_up(cloud: ComputeCloud) -> None:
    url = await console_url(cloud, await cloud.make_server())
    serving = consoles_of(cloud)
    consoles = await serving.__aenter__()
    async with consoles.open(url) as console:
        await serving.__aexit__(None, None, None)
        assert (await ended(console))[0] == 1012
    await until_closed(cloud)


async def test_a_guest_that_is_slow_to_take_what_is_typed_ends_no_console(
    cloud: ComputeCloud, consoles: Consoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await console_url(cloud, await cloud.make_server())
    monkeypatch.setattr(serving, "AGENT_PATIENCE_S", 0.0)
    async with consoles.open(url) as console:
        await console.send(b"slowly\r")
        await hears(console, b"slowly")
        await console.send(b"but surely\r")
        await hears(console, b"but surely")


async def test_a_guest_that_takes_nothing_ends_a_console(
    cloud: ComputeCloud, consoles: Consoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def take_nothing(self: object, typed: SerialInput) -> int:
        del self
        return typed.after

    url = await console_url(cloud, await cloud.make_server())
    async with consoles.open(url) as console:
        await console.send(b"taken\r")
        await hears(console, b"taken")
        monkeypatch.setattr(serial_sessions.Session, "type", take_nothing)
        monkeypatch.setattr(http_limits, "CONSOLE_READ_S", 0.1)
        await console.send(b"not taken\r")
        assert "does not take" in (await ended(console))[1]
    await until_closed(cloud)


async def test_no_log_has_a_token_that_was_asked_about(cloud: ComputeCloud) -> None:
    token = token_of(await console_url(cloud, await cloud.make_server()))
    assert (await cloud.ask("GET", f"/os-console-auth-tokens/{token}")).status == 403
    log = await asyncio.to_thread((cloud.settings.state_path / "audit.log").read_text)
    assert "/os-console-auth-tokens/" in log
    assert token not in log
