"""A `mooring` command as a process of its own, and a user who talks to it by socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

READY_S = 120.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process:
    """A command that says `ready <url>`; `ready_s` is how long that took.

    It may keep what Python has compiled, as every user's does: a setting of the machine against
    that would have each start compile all of it again.
    """

    def __init__(self, *arguments: str, log: Path) -> None:
        kept = {name: it for name, it in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with log.open("ab") as errors:
            started = time.perf_counter()
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "mooring.main", *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=kept,
            )
        assert self.popen.stdout is not None  # noqa: S101  (asked for above)
        said = next((line for line in self.popen.stdout if line.startswith("ready ")), "")
        if not said:
            raise RuntimeError(f"{arguments[0]} ended before it was ready: {log.read_text()}")
        self.ready_s = time.perf_counter() - started
        self.url = said.split()[1]

    def cpu_s(self) -> float:
        """Return the CPU time that the process has used."""
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def pss_mib(self) -> float:
        """Return the process's proportional share of memory."""
        text = Path(f"/proc/{self.popen.pid}/smaps_rollup").read_text("ascii")
        kib = next(line.split()[1] for line in text.splitlines() if line.startswith("Pss:"))
        return int(kib) / 1024

    def end(self) -> None:
        """Ask it to stop, and wait."""
        self.popen.terminate()
        self._wait()

    def kill(self) -> None:
        """End it with SIGKILL, now."""
        self.popen.kill()
        self._wait()

    def _wait(self) -> None:
        self.popen.wait(READY_S)
        if self.popen.stdout is not None:
            self.popen.stdout.close()


def start_up(directory: Path) -> Process:
    """Start a whole cloud with one simulated host."""
    return Process(
        "up",
        *("--state-dir", str(directory / "state"), "--listen", "127.0.0.1:0"),
        *("--hypervisor", "simulated"),
        log=directory / "log",
    )


class User:
    """One user of a cloud, over one connection that is kept."""

    def __init__(self, state: Path, url: str, name: str = "demo") -> None:
        passwords = json.loads((state / "passwords.json").read_text(encoding="utf-8"))
        who = {"name": name, "domain": {"id": "default"}, "password": passwords[name]}
        scope = {"project": {"name": name, "domain": {"id": "default"}}}
        auth = {"identity": {"methods": ["password"], "password": {"user": who}}, "scope": scope}
        self._client = httpx2.Client(base_url=url, timeout=120.0, trust_env=False)
        answer = self._client.post("/identity/v3/auth/tokens", json={"auth": auth})
        self._token = answer.headers["X-Subject-Token"]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return its decoded body. Raises RuntimeError for a refusal."""
        service = path.split("/")[1]
        version = {"compute": "compute 2.79", "volume": "volume 3.60"}.get(service, "")
        headers = {"X-Auth-Token": self._token, "OpenStack-API-Version": version}
        answer = self._client.request(method, path, json=body, headers=headers)
        if answer.status_code >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None

    def until(self, holds: Callable[[], bool], pause_s: float) -> None:
        """Look again until something holds."""
        deadline = time.monotonic() + READY_S
        while not holds():
            if time.monotonic() > deadline:
                raise RuntimeError(f"it does not hold within {READY_S} s")
            time.sleep(pause_s)

    def upload(self, path: str, content: bytes) -> None:
        """Send the data of an image."""
        headers = {"X-Auth-Token": self._token, "Content-Type": "application/octet-stream"}
        self._client.put(path, content=content, headers=headers).raise_for_status()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def make_image(user: User) -> str:
    """Make an image without a byte of sense in it."""
    body = {"name": "bench", "disk_format": "raw", "container_format": "bare"}
    image_id = user.ask("POST", "/image/v2/images", body)["id"]
    user.upload(f"/image/v2/images/{image_id}/file", b"\0" * 65536)
    return image_id


def lift_quotas(admin: User) -> None:
    """Let the project demo have as much as it likes."""
    found = admin.ask("GET", "/identity/v3/projects?name=demo")
    project_id = found["projects"][0]["id"]
    unlimited = {
        "volume/v3": ("volumes", "gigabytes"),
        "compute/v2.1": ("instances", "cores", "ram"),
    }
    for root, names in unlimited.items():
        body = {"quota_set": dict.fromkeys(names, -1)}
        admin.ask("PUT", f"/{root}/os-quota-sets/{project_id}", body)
