"""`/metrics` tells what the documentation says, to whoever has the token, in bounded labels."""

from __future__ import annotations

import asyncio
import re
import resource
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.orm import Session

from mooring import certificates
from mooring.agent_api.joining import JoinRequest, read_token
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Invalid
from mooring.fence import debts
from mooring.fence.operation import Operation
from mooring.fleet.fleet import Fleet, open_fleet
from mooring.limits import CERTIFICATE_RENEW_S
from mooring.metrics import app
from mooring.saga.seal import Sealer
from mooring.saga.tables import SagaRow
from mooring.store.base import open_store
from tests.cloud import URL, SimulatedCloud

pytestmark = pytest.mark.anyio
DOCS = Path(__file__).parents[1] / "docs" / "metrics.md"


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path) as opened:
        yield opened


async def ask(cloud: SimulatedCloud, authorization: str, path: str = "/metrics") -> httpx2.Response:
    """Ask as Prometheus does, which comes by socket and not by the services' network."""
    transport = httpx2.ASGITransport(app=cloud.cloud.app)
    async with httpx2.AsyncClient(transport=transport, base_url=URL) as client:
        return await client.get(path, headers=[(b"authorization", authorization.encode("latin-1"))])


def token_of(cloud: SimulatedCloud) -> str:
    return (cloud.settings.state_path / app.FILE).read_text().strip()


async def scrape(cloud: SimulatedCloud) -> str:
    answer = await ask(cloud, f"Bearer {token_of(cloud)}")
    assert answer.status_code == 200, answer.text
    return answer.text


def samples(text: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


async def test_the_documentation_and_a_scrape_have_the_same_metrics(cloud: SimulatedCloud) -> None:
    await cloud.do("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    told = dict(re.findall(r"^# TYPE (\S+) (\w+)$", await scrape(cloud), re.MULTILINE))
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", DOCS.read_text(), re.MULTILINE)
    assert told == dict(rows)


async def test_labels_are_those_of_the_documentation(cloud: SimulatedCloud) -> None:
    await cloud.do("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    documented = {
        name: set(re.findall(r"`(\w+)`", labels))
        for name, labels in re.findall(
            r"^\| `(\w+)` \| \w+ \| ([^|]*)\|", DOCS.read_text(), re.MULTILINE
        )
    }
    for family in text_string_to_metric_families(await scrape(cloud)):
        for sample in family.samples:
            name = re.sub(r"_(bucket|sum|count)$", "", sample.name)
            assert sample.labels.keys() - {"le"} == documented[name], sample


async def test_alerts_ask_for_metrics_that_there_are() -> None:
    text = DOCS.read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    asked = {
        re.sub(r"_bucket$", "", name)
        for line in re.findall(r"expr: (.*)", text)
        for name in re.findall(r"mooring_\w+", line)
    }
    assert asked
    assert asked <= rows


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", "Basic {token}", "{token}", "Bearer \xe9"]
)
async def test_nobody_reads_without_the_token(cloud: SimulatedCloud, given: str) -> None:
    answer = await ask(cloud, given.format(token=token_of(cloud)))
    assert answer.status_code == 401
    assert "mooring_" not in answer.text


async def test_there_is_nothing_below_the_metrics(cloud: SimulatedCloud) -> None:
    assert (await ask(cloud, f"Bearer {token_of(cloud)}", "/metrics/x")).status_code == 404


async def test_the_token_is_its_owners_alone_and_stays(cloud: SimulatedCloud) -> None:
    file = cloud.settings.state_path / app.FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = token_of(cloud)
    await cloud.restart()
    assert token_of(cloud) == before
    file.chmod(0o644)
    with pytest.raises(Invalid, match="chmod 600"):
        app.ensure_token(file)


async def test_what_a_client_writes_never_becomes_a_label(cloud: SimulatedCloud) -> None:
    before = samples(await scrape(cloud), "mooring_request_seconds_count")
    for number in range(20):
        await cloud.ask("GET", f"/volume/v3/volumes/{number:032x}")
        await cloud.ask("GET", f"/volume/v3/nowhere-{number}")
        await cloud.ask(f"FETCH{number}", "/volume/v3/volumes")
    found = samples(await scrape(cloud), "mooring_request_seconds_count")
    fresh = found.keys() - before.keys()
    assert {dict(labels)["route"] for labels in fresh} <= {"", "/volumes/{volume_id}", "/volumes"}
    place = {"service": "volume", "method": "", "route": ""}
    assert found[tuple(sorted(place.items()))] >= 40


async def test_an_operation_under_way_is_counted_with_its_age(cloud: SimulatedCloud) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()

    async def hold(request: Request, forward: Forward) -> Response:
        asked.set()
        await answered.wait()
        return await forward(request)

    cloud.deliver_to_host = hold
    await cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    await asked.wait()
    cloud.clock.advance(5)
    text = await scrape(cloud)
    place = {"service": "volume", "kind": "volume.create_volume", "state": "ready"}
    labels = tuple(sorted(place.items()))
    assert samples(text, "mooring_operations") == {labels: 1}
    assert samples(text, "mooring_operation_oldest_seconds") == {labels: 5}
    answered.set()
    await cloud.settle()
    assert samples(await scrape(cloud), "mooring_operations") == {}


async def test_an_undo_that_fails_is_counted(cloud: SimulatedCloud) -> None:
    def fail(tx: Session) -> None:
        saga: dict[str, Any] = {
            "name": "volume.create_volume",
            "version": 1,
            "notes": {},
            "step": "reserve",
        }
        owner = {"owner": "gone", "lease_until": cloud.clock.now()}
        at = dict.fromkeys(("created_at", "updated_at"), cloud.clock.now())
        tx.add(SagaRow(id="s", state="parked", heading="back", attempts=3, **saga, **owner, **at))
        for heading in ("forward", "failing", "leaving", "owing"):
            other: dict[str, Any] = {"id": heading, "heading": heading, "attempts": 4}
            tx.add(SagaRow(state="parked", **other, **saga, **owner, **at))

    await cloud.cloud.stores["volume"].write(fail)
    place = (("kind", "volume.create_volume"), ("service", "volume"))
    assert samples(await scrape(cloud), "mooring_undo_failures") == {place: 3}


async def test_debts_and_silent_hosts_are_told(cloud: SimulatedCloud) -> None:
    def owe(tx: Session) -> None:
        operation = Operation("saga", "step", 1, 1)
        debts.owe(tx, "h1", "DELETE", "/servers/x", operation, now=cloud.clock.now())

    await cloud.cloud.stores["compute"].write(owe)
    cloud.clock.advance(90)
    text = await scrape(cloud)
    place = (("host", "h1"), ("service", "compute"))
    assert samples(text, "mooring_debts") == {place: 1}
    assert samples(text, "mooring_debt_oldest_seconds") == {place: 90}
    assert samples(text, "mooring_host_silent_seconds")[place] == 90


async def test_operations_that_are_stuck_are_counted_by_their_kind(cloud: SimulatedCloud) -> None:
    def hang(tx: Session) -> None:
        owner = {"owner": "gone", "lease_until": cloud.clock.now()}
        at = dict.fromkeys(("created_at", "updated_at"), cloud.clock.now())
        saga: dict[str, Any] = {"version": 1, "notes": {}, "step": "reserve", "heading": "forward"}
        for saga_id, kind, state, stuck in (
            ("1", "create_volume", "parked", True),
            ("2", "create_volume", "locked", True),
            ("3", "create_volume", "parked", False),
            ("4", "create_volume", "ended", True),
            ("5", "delete_volume", "parked", False),
        ):
            name = f"volume.{kind}"
            tx.add(SagaRow(id=saga_id, name=name, state=state, stuck=stuck, **saga, **owner, **at))

    await cloud.cloud.stores["volume"].write(hang)
    kinds = {"volume.create_volume": 2, "volume.delete_volume": 0}
    assert samples(await scrape(cloud), "mooring_operations_stuck") == {
        (("kind", kind), ("service", "volume")): count for kind, count in kinds.items()
    }


async def test_commits_are_counted_with_their_times(cloud: SimulatedCloud) -> None:
    place = (("service", "volume"),)
    before = await scrape(cloud)
    await cloud.do("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    await cloud.settle()
    after = await scrape(cloud)
    for name in ("mooring_commit_seconds_count", "mooring_commit_seconds_sum"):
        assert samples(after, name)[place] > samples(before, name).get(place, 0)
    most = (("le", "+Inf"), *place)
    counted = samples(after, "mooring_commit_seconds_count")[place]
    assert samples(after, "mooring_commit_seconds_bucket")[most] == counted


async def test_requests_are_counted_with_their_times_and_answers(cloud: SimulatedCloud) -> None:
    route = (("method", "GET"), ("route", "/volumes/{volume_id}"), ("service", "volume"))
    for _ in range(3):
        assert (await cloud.ask("GET", f"/volume/v3/volumes/{0:032x}")).status == 404
    text = await scrape(cloud)
    assert samples(text, "mooring_requests_total")[("code", "404"), *route] == 3
    assert samples(text, "mooring_request_seconds_count")[route] == 3
    assert samples(text, "mooring_request_seconds_sum")[route] > 0
    method, *rest = route
    most = (("le", "+Inf"), method, *rest)
    assert samples(text, "mooring_request_seconds_bucket")[most] == 3


async def test_certificates_of_hosts_are_told_until_they_end(cloud: SimulatedCloud) -> None:
    async with open_fleet_beside(cloud) as fleet:
        token, _ = await fleet.invite("far", ["compute"], "192.0.2.1:8472")
        wish = certificates.make_request(certificates.new_key(), "far").decode()
        await fleet.join(JoinRequest(read_token(token).secret, wish, "192.0.2.2:8471"))
        place = (("host", "far"),)
        first = samples(await scrape(cloud), "mooring_host_certified_seconds")[place]
        assert first > CERTIFICATE_RENEW_S
        cloud.clock.advance(1000)
        found = samples(await scrape(cloud), "mooring_host_certified_seconds")
        assert found == {place: first - 1000}


@asynccontextmanager
async def open_fleet_beside(cloud: SimulatedCloud) -> AsyncGenerator[Fleet]:
    """Let hosts on other machines join a cloud."""
    opened = cloud.cloud
    store = await open_store(str(cloud.settings.state_path), "fleet")
    opened.fleet = await open_fleet(store, Sealer(b"k" * 32), opened.agents, opened.clock)
    yield opened.fleet
    opened.fleet = None
    await store.close()


async def test_the_process_is_told_as_it_is(cloud: SimulatedCloud, tmp_path: Path) -> None:
    def read(text: str, name: str) -> float:
        [value] = samples(text, f"process_{name}").values()
        return value

    before = await scrape(cloud)
    with (tmp_path / "open").open("w"), (tmp_path / "another").open("w"):
        after = await scrape(cloud)
    assert read(after, "open_fds") >= read(before, "open_fds") + 2
    assert read(after, "cpu_seconds_total") >= read(before, "cpu_seconds_total") > 0
    assert read(after, "virtual_memory_bytes") > read(after, "resident_memory_bytes") > 1 << 20
    assert read(after, "max_fds") == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert abs(read(after, "start_time_seconds") - psutil.Process().create_time()) < 2
