"""One cloud with real guests, for tests that let the guests themselves say what they see."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from tests.contract.clients import COMPUTE, VOLUME, Http
from tests.kill.processes import CommandProcess

HEARS_S, POLL_S = 240.0, 0.2
GIB = 1 << 30
Tended = TypeVar("Tended", bound="RealCloud")


class Guest:
    """A server with a real guest, and what its console has said since `forget`."""

    def __init__(self, cloud: RealCloud, server_id: str) -> None:
        self.cloud, self.server_id = cloud, server_id
        self.path = f"{COMPUTE}/servers/{server_id}"
        self._heard = 0

    def act(self, name: str, arguments: Any = None) -> Any:
        """Ask for an action, which must be accepted, and return the answer's body."""
        answer = self.cloud.demo.ask("POST", f"{self.path}/action", {name: arguments})
        assert answer.status < 300, answer
        return answer.body

    def said(self) -> str:
        """Return all that the console has said, as the API gives it while the cloud lives."""
        if self.cloud.process.is_dead():
            [file] = self.cloud.files(self.server_id, "console.log")
            return file.read_text(errors="replace")
        return self.act("os-getConsoleOutput", {})["output"]

    def forget(self) -> None:
        """Do not hear again what was said until now."""
        self._heard = len(self.said())

    def begin_anew(self) -> None:
        """Hear all that is said on the console of a guest that was made anew."""
        self._heard = 0

    def hear(self, pattern: str) -> re.Match[str]:
        """Wait until the guest has said something that fits."""
        until = time.monotonic() + HEARS_S
        while not (found := re.search(pattern, self.said()[self._heard :])):
            assert time.monotonic() < until, f"never said: {pattern}; said: {self.said()}"
            time.sleep(POLL_S)
        return found

    def sees(self, volume_id: str, size_gib: int = 1) -> str:
        """Wait until the guest has seen a volume, and return the name that it gave it."""
        return self.hear(rf"disk ([sv]d.) {size_gib * GIB} bytes serial={volume_id[:20]}")[1]

    def attach(self, volume_id: str) -> None:
        """Attach a volume, and wait until it is in use."""
        self.begin_attach(volume_id)
        self.cloud.demo.until_volume(volume_id, "in-use")

    def begin_attach(self, volume_id: str) -> None:
        """Ask for a volume to be attached."""
        body = {"volumeAttachment": {"volumeId": volume_id}}
        answer = self.cloud.demo.ask("POST", f"{self.path}/os-volume_attachments", body)
        assert answer.status == 200, answer

    def detach(self, volume_id: str) -> None:
        """Detach a volume, and wait until it is available."""
        self.begin_detach(volume_id)
        self.cloud.demo.until_volume(volume_id, "available")

    def begin_detach(self, volume_id: str) -> None:
        """Ask for a volume to be detached."""
        path = f"{self.path}/os-volume_attachments/{volume_id}"
        assert self.cloud.demo.ask("DELETE", path).status == 202

    def attachments(self) -> dict[str, str]:
        """Return the id of each attachment, by the id of its volume."""
        answer = self.cloud.demo.ask("GET", f"{self.path}/os-volume_attachments", version="2.89")
        return {one["volumeId"]: one["attachment_id"] for one in answer.key("volumeAttachments")}

    def until(self, status: str) -> None:
        """Wait until the server has a status, and nothing is done to it."""
        self.cloud.demo.until_server(self.server_id, status)

    def process_id(self) -> int:
        """Return the process that runs the guest now."""
        return self.cloud.processes()[self.server_id]


class RealCloud:
    """One `mooring up` that starts, is killed and starts again, on one directory and port."""

    is_former = False
    """Whether its guests are root's, as with releases before."""

    def __init__(self, directory: Path) -> None:
        self.state_dir, self._log = directory / "state", directory / "log"
        self._listen = "127.0.0.1:0"
        self.process: CommandProcess
        self.demo: Http
        self.admin: Http
        self.start()

    def start(self, kill_at: str = "") -> None:
        """Start it; `kill_at` names the point at which it ends itself with SIGKILL."""
        self.process = CommandProcess(
            "up",
            *("--state-dir", str(self.state_dir), "--listen", self._listen),
            *("--hypervisor", "libvirt"),
            log=self._log,
            kill_at=kill_at,
        )
        self._listen = self.process.ready.removeprefix("http://")
        self.demo, self.admin = self._connect("demo"), self._connect("admin")

    def _connect(self, user: str) -> Http:
        passwords = json.loads((self.state_dir / "passwords.json").read_text())
        return Http(self.process.ready, user, passwords[user], user)

    def stop(self) -> int:
        """End it as an operator would, and return how it ended."""
        self.process.popen.terminate()
        return self.ended()

    def ended(self) -> int:
        """Wait for its end, and return how it came."""
        code = self.process.wait()
        self.demo.client.close()
        self.admin.client.close()
        return code

    def clean_up(self) -> None:
        """End it and its guests, whatever the tests have left."""
        if not self.process.is_dead():
            self.stop()
        for process_id in self.processes().values():
            os.kill(process_id, signal.SIGKILL)

    # -- what the machine has ---------------------------------------------------------------

    def processes(self) -> dict[str, int]:
        """Return the QEMU process of each server that has one, whoever started it."""
        found: dict[str, int] = {}
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = entry.read_text(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            name = re.search(r"guest=mooring-([0-9a-f-]{36})", command)
            if name and str(self.state_dir) in command:
                found[name[1]] = int(entry.parent.name)
        return found

    def files(self, *words: str) -> list[Path]:
        """Return what lies below the hosts' directories and has all these words in its path."""
        every = (self.state_dir / "hosts").rglob("*")
        return [path for path in every if all(word in str(path) for word in words)]

    def killed_in(self, point: str, ask: Callable[[], object]) -> None:
        """Start anew, ask for something, and return once that has killed the cloud at the point."""
        assert self.stop() == 0
        self.start(kill_at=point)
        # Whether the answer comes before the end is a matter of luck.
        with suppress(httpx2.TransportError):
            ask()
        assert self.ended() == -signal.SIGKILL

    # -- what must hold ---------------------------------------------------------------------

    def settle(self) -> None:
        """Wait until every operation has ended; then the doctor must find nothing."""
        for root in (COMPUTE, VOLUME):
            self.admin.until(f"{root}/mooring/operations", lambda got: not got.key("operations"))
        found = self.admin.ask("GET", "/mooring/doctor").body
        assert found == {"findings": []}, found

    def delete(self, path: str) -> None:
        """Delete something, and wait until it is gone."""
        answer = self.demo.ask("DELETE", path)
        assert answer.status < 300, answer
        self.demo.until(path, lambda got: got.status == 404)

    def boot(self, name: str, **wanted: Any) -> Guest:
        """Boot a server with 128 MiB, and wait until its guest speaks."""
        body = {"name": name, "flavorRef": "42", "networks": "none", **wanted}
        answer = self.demo.ask("POST", f"{COMPUTE}/servers", {"server": body}, version="2.79")
        guest = Guest(self, answer.key("server")["id"])
        guest.until("ACTIVE")
        guest.hear(f"mooring-guest: machine {guest.server_id}")
        if os.geteuid() == 0 and not self.is_former:
            owner = Path(f"/proc/{guest.process_id()}/status").read_text()
            assert not re.search(r"^Uid:.*\t0\b", owner, re.MULTILINE), "a guest is root"
        return guest


@contextmanager
def tended(cloud: Tended) -> Generator[Tended]:
    """A cloud for tests that leave it as they found it: no operation, no guest, no findings."""
    try:
        yield cloud
        cloud.settle()
        assert cloud.processes() == {}
        assert cloud.stop() == 0
    finally:
        cloud.clean_up()
