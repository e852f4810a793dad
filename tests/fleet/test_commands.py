"""A second machine by public commands alone: invited, joined, used, killed, started again."""

from __future__ import annotations

import json
import resource
import signal
import socket
import ssl
import stat
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mooring.agent import membership
from mooring.agent_api.joining import read_token, write_token
from tests.fleet.members import free_port, start_agent
from tests.kill.processes import ForkedProcess, run_forked

pytestmark = pytest.mark.kill
BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


class Site:
    """A control plane where hosts may join, and the hosts that do, each in its own process."""

    def __init__(self, directory: Path, database: str = "", *, reached_at: str = "") -> None:
        self.directory, self.state = directory, directory / "state"
        self.database = ("--database", database) if database else ()
        self.joins_at = f"127.0.0.1:{free_port()}"
        self._settings = directory / "settings.toml"
        address = f'hosts_address = "{reached_at}"\n' if reached_at else ""
        self._settings.write_text(f'hosts_listen = "{self.joins_at}"\n{address}', "utf-8")
        self.control: ForkedProcess
        self._running: list[ForkedProcess] = []

    def start(self, kill_at: str = "") -> None:
        where = ("--state-dir", str(self.state), "--listen", "127.0.0.1:0")
        log = self.directory / "control.log"
        arguments = ("serve", "--config", str(self._settings), *where, *self.database)
        self.control = ForkedProcess(*arguments, log=log, kill_at=kill_at)
        self._running.append(self.control)

    def start_host(self, name: str, *arguments: str, kill_at: str = "") -> ForkedProcess:
        agent = start_agent(self.directory / name, *arguments, kill_at=kill_at)
        self._running.append(agent)
        return agent

    def join(self, token: str, name: str = "h2", kill_at: str = "") -> ForkedProcess:
        port = free_port()
        listen = ("--address", f"127.0.0.1:{port}")
        return self.start_host(name, "--join", token, *listen, kill_at=kill_at)

    def say(self, *arguments: str) -> str:
        """Run a command of the operator that goes well; return what it prints."""
        code, said, warned = run_forked(*arguments, "--state-dir", str(self.state))
        assert code == 0, warned
        return said

    def refusal(self, *arguments: str) -> str:
        """Run one that does not; return what it says."""
        code, said, warned = run_forked(*arguments)
        assert (code, said) == (1, ""), warned
        return warned

    def token(self, name: str = "h2", *more: str) -> str:
        return self.say("host", "add", name, *more).strip()

    def ask(self, path: str, key: str) -> Any:
        """Read from an API of the cloud as its administrator."""
        return self.call("GET", path).json()[key]

    def call(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        """Ask an API of the cloud as its administrator."""
        passwords = json.loads((self.state / "passwords.json").read_text("utf-8"))
        who = {"name": "admin", "domain": {"id": "default"}, "password": passwords["admin"]}
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        auth = {"identity": {"methods": ["password"], "password": {"user": who}}, "scope": scope}
        with httpx2.Client(base_url=self.control.ready, timeout=60) as client:
            given = client.post("/identity/v3/auth/tokens", json={"auth": auth})
            headers = {"X-Auth-Token": given.headers["X-Subject-Token"]}
            return client.request(method, path, headers=headers, json=body)

    def stop(self) -> None:
        for process in self._running:
            if not process.is_dead():
                process.kill()


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


@pytest.mark.parametrize("database", BOTH)
def test_a_host_on_another_machine_joins_and_serves(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if database == "postgresql" else ""
    site = Site(tmp_path, url)
    try:
        site.start()
        token = site.token()
        agent = site.join(token)
        kept = tmp_path / "h2" / membership.FILE
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert not (tmp_path / "h2" / membership.KEY).exists()
        shown = site.say("host", "show", "h2")
        assert agent.ready in shown
        assert "joined" in shown
        # Stopped and started again it needs no token, and has not moved.
        agent.kill()
        assert site.start_host("h2").ready == agent.ready
        # Nor does the control plane, which asks all hosts before it is ready.
        site.control.kill()
        site.start()
        (host,) = site.ask("/compute/v2.1/os-hypervisors", "hypervisors")
        assert (host["hypervisor_hostname"], host["state"]) == ("h2", "up")
        pools = site.ask("/volume/v3/scheduler-stats/get_pools", "pools")
        assert [pool["name"].partition("@")[0] for pool in pools] == ["h2"]
        assert "Everything agrees." in site.say("doctor", *site.database)
    finally:
        site.stop()


def test_a_host_does_not_join_again_under_an_agent_that_runs(site: Site) -> None:
    """The agent would go on as who it is no more, until it was started anew."""
    site.start()
    agent = site.join(site.token())
    before = (site.directory / "h2" / membership.FILE).read_bytes()
    site.say("host", "remove", "h2")
    token = site.token()
    again = ("agent", "--join", token, "--address", f"127.0.0.1:{free_port()}")
    said = site.refusal(*again, "--state-dir", str(site.directory / "h2"))
    assert "Another agent runs in" in said
    assert (site.directory / "h2" / membership.FILE).read_bytes() == before
    agent.kill()
    site.join(token)
    assert "joined" in site.say("host", "show", "h2")


def test_a_host_killed_before_it_keeps_its_certificate_joins_again_as_the_same(site: Site) -> None:
    site.start()
    token = site.token()
    with pytest.raises(AssertionError, match=f"with -{signal.SIGKILL.value}"):
        site.join(token, kill_at="agent/join/certified")
    assert not (site.directory / "h2" / membership.FILE).exists()
    key = (site.directory / "h2" / membership.KEY).read_text("ascii")
    agent = site.join(token)
    member = membership.read(site.directory / "h2")
    assert member is not None
    assert member.key == key
    listed = site.say("host", "list").splitlines()
    assert [line.split()[0] for line in listed[1:]] == ["h2"]
    # The token is spent for everybody else, and no hindrance for this host.
    agent.kill()
    assert site.start_host("h2", "--join", token).ready == agent.ready
    with pytest.raises(AssertionError, match="with 1"):
        site.join(token, "thief")
    assert "joined with another key" in (site.directory / "thief.log").read_text("utf-8")
    assert not (site.directory / "thief" / membership.FILE).exists()


def test_a_control_plane_killed_before_it_answers_gives_the_same_answer_later(site: Site) -> None:
    site.start()
    token = site.token()
    site.control.kill()
    # The first write of this start is the joining.
    site.start(kill_at="store.fleet/commit/after@1")
    with pytest.raises(AssertionError, match="with 1"):
        site.join(token)
    assert site.control.wait() == -signal.SIGKILL
    assert "start the agent again" in (site.directory / "h2.log").read_text("utf-8")
    site.start()
    agent = site.join(token)
    listed = site.say("host", "list").splitlines()
    assert [line.split()[0] for line in listed[1:]] == ["h2"]
    assert agent.ready in listed[1]


def test_a_host_is_removed_when_it_is_empty_and_comes_back_as_another(site: Site) -> None:
    site.start()
    site.join(site.token())
    # A start asks all hosts for their pools before it is ready.
    site.control.kill()
    site.start()
    made = site.call("POST", "/volume/v3/volumes", {"volume": {"size": 1, "name": "v"}})
    volume = f"/volume/v3/volumes/{made.json()['volume']['id']}"
    while (status := site.ask(volume, "volume")["status"]) == "creating":
        pass
    assert status == "available"
    state = ("--state-dir", str(site.state))
    assert "still has 1 volumes" in site.refusal("host", "remove", "h2", *state)
    assert "joined" in site.say("host", "show", "h2")
    site.call("DELETE", volume)
    while site.call("GET", volume).status_code == 200:
        pass
    # The control plane dies when the host is cut off and not yet forgotten.
    site.control.kill()
    site.start(kill_at="store.fleet/commit/after@1")
    assert site.refusal("host", "remove", "h2", *state)
    assert site.control.wait() == -signal.SIGKILL
    site.start()
    while "No host on another machine" not in site.say("host", "list"):
        pass
    assert site.ask("/compute/v2.1/os-services?binary=nova-compute", "services") == []
    assert site.ask("/volume/v3/scheduler-stats/get_pools", "pools") == []
    # Its agent runs on with what it was certified for, and nobody asks it.
    agent = site.join(site.token(), "another")
    (line,) = site.say("host", "list").splitlines()[1:]
    assert agent.ready in line
    assert "Everything agrees." in site.say("doctor")


def test_a_certificate_is_renewed_without_a_restart_and_a_killed_host_keeps_one(
    site: Site,
) -> None:
    def fingerprint() -> str:
        shown = site.say("host", "show", "h2")
        (line,) = [line for line in shown.splitlines() if line.startswith("certificate ")]
        return line.split()[-1]

    site.start()
    agent = site.join(site.token())
    first, port = fingerprint(), agent.ready
    assert "is certified until" in site.say("host", "renew", "h2")
    second = fingerprint()
    assert second != first
    agent.kill()
    # It dies when it shows the next certificate and nobody knows that yet.
    agent = site.start_host("h2", kill_at="agent/put_certificate/acted")
    state = ("--state-dir", str(site.state))
    assert site.refusal("host", "renew", "h2", *state)
    assert agent.wait() == -signal.SIGKILL
    assert fingerprint() == second
    agent = site.start_host("h2")
    assert agent.ready == port
    site.say("host", "renew", "h2")
    assert fingerprint() not in {first, second}
    # A control plane that starts anew knows nobody, and asks for certificates.
    site.control.kill()
    site.start()
    (host,) = site.ask("/compute/v2.1/os-hypervisors", "hypervisors")
    assert (host["hypervisor_hostname"], host["state"]) == ("h2", "up")
    assert "No host h7 was invited" in site.refusal("host", "renew", "h7", *state)


def test_hosts_do_what_they_were_invited_for(site: Site) -> None:
    site.start()
    site.join(site.token("runs", "--role", "compute"), "runs")
    site.join(site.token("keeps", "--role", "volume"), "keeps")
    site.control.kill()
    site.start()
    hosts = site.ask("/compute/v2.1/os-hypervisors", "hypervisors")
    assert [host["hypervisor_hostname"] for host in hosts] == ["runs"]
    pools = site.ask("/volume/v3/scheduler-stats/get_pools", "pools")
    assert [pool["name"].partition("@")[0] for pool in pools] == ["keeps"]


def test_what_an_operator_does_wrong_is_told(site: Site) -> None:
    site.start()
    said = read_token(site.token())
    site.join(site.token("h3"), "h3")
    state, host = ("--state-dir", str(site.state)), ("--state-dir", str(site.directory / "h9"))
    assert "joined already" in site.refusal("host", "add", "h3", *state)
    assert "no name for a host" in site.refusal("host", "add", "a/b", *state)
    assert "There is no host h7" in site.refusal("host", "show", "h7", *state)
    assert "Give --join TOKEN" in site.refusal("agent", *host)
    assert "no join token" in site.refusal("agent", *host, "--join", "x")
    beyond = site.refusal(
        "agent", *host, "--address", "127.0.0.1:99999", "--join", site.token("h9")
    )
    assert "1 to 65535, or 0 for any free one" in beyond
    both = ("--socket", "/tmp/x", "--name", "h2", "--join", "x")
    assert "give --join alone" in site.refusal("agent", *host, *both)
    token = write_token(said)
    assert "is host h2, not h9" in site.refusal("agent", *host, "--name", "h9", "--join", token)
    elsewhere = write_token(type(said)(said.address, "0" * 64, said.host, said.secret))
    here = ("--address", "127.0.0.1:0")
    wrong_cloud = site.refusal("agent", *host, *here, "--join", elsewhere)
    assert "not the cloud that this token is from" in wrong_cloud
    taken = ("--state-dir", str(site.directory / "h3"), *here)
    assert "is that of host h3" in site.refusal("agent", *taken, "--join", token)
    assert not (site.directory / "h9" / membership.FILE).exists()


def test_a_cloud_that_takes_no_hosts_says_how_it_would(tmp_path: Path) -> None:
    state = ("--state-dir", str(tmp_path / "state"))
    log = tmp_path / "control.log"
    control = ForkedProcess("serve", *state, "--listen", "127.0.0.1:0", log=log)
    try:
        code, said, warned = run_forked("host", "add", "h2", *state)
        assert (code, said) == (1, "")
        assert "hosts_listen" in warned
        code, said, warned = run_forked("host", "show", "h2", *state)
        assert (code, said, "There is no host h2" in warned) == (1, "", True)
        assert not (tmp_path / "state" / "fleet.sqlite").exists()
    finally:
        control.kill()


def test_silent_connections_where_hosts_join_stop_neither_them_nor_the_apis(site: Site) -> None:
    site.start()
    resource.prlimit(site.control.pid, resource.RLIMIT_NOFILE, (800, 800))
    host, _, port = site.joins_at.rpartition(":")
    where = httpx2.URL(scheme="https", host=host, port=int(port))
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(socket.create_connection((host, int(port))))
        assert httpx2.get(f"{site.control.ready}/healthz").status_code == 200
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        authority = httpx2.get(f"{where}/authority", verify=trusting)
        assert "CERTIFICATE" in authority.text
    log = (site.directory / "control.log").read_text("utf-8")
    assert "Too many open files" not in log
