"""A cloud as users have it: one `mooring up` in a process of its own, and what they reach it with.

Users come with the stock `openstack` command (`Shell`), with openstacksdk (`Cloud.connect`), or
with requests of their own making (`Http`).
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct
from openstack import connect
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.contract.command import run_command
from tests.kill.processes import CommandProcess

COMMAND_S, ENDS_S, POLL_S = 240.0, 240.0, 0.05
COMPUTE, VOLUME, IMAGE, SHARE = "/compute/v2.1", "/volume/v3", "/image/v2", "/share/v2"
MIB = 1024 * 1024


class Refused(Exception):
    """The command ended with an error; its text is what a person reads."""


class Shell:
    """Runs the stock `openstack` command as one of the users in `clouds.yaml`."""

    def __init__(self, clouds_yaml: Path, user: str) -> None:
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(clouds_yaml.parent),
            "OS_CLIENT_CONFIG_FILE": str(clouds_yaml),
            "OS_CLOUD": user,
            "COLUMNS": "500",
        }

    def execute(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command and return how it ended, whatever that is."""
        return run_command(words, self.environment, timeout_s=COMMAND_S)

    def run(self, *words: str) -> str:
        """Return what the command printed. Raises Refused with what it said on its error output."""
        done = self.execute(*words)
        if done.returncode:
            raise Refused(done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    def ask(self, *words: str) -> Any:
        """Return what the command answers, as data."""
        return json.loads(self.run(*words, "-f", "json"))

    def ask_each(self, *commands: Sequence[str]) -> list[Any]:
        """Return the answers of commands that do not depend on each other, two at a time."""
        with ThreadPoolExecutor(2) as pool:
            asking = [pool.submit(self.ask, *words) for words in commands]
            return [each.result() for each in asking]


class Answer(Struct, frozen=True):
    """What a request got. `body` is decoded JSON, or None."""

    status: int
    headers: httpx2.Headers
    body: Any

    def key(self, name: str) -> Any:
        """One member of the body, of a request that went well."""
        assert self.status < 300, (self.status, self.body)
        return self.body[name]


class Http:
    """Sends requests of any shape, with the token of one user in one project."""

    def __init__(self, url: str, user: str, password: str, project: str) -> None:
        self.client = httpx2.Client(base_url=url, timeout=60.0)
        self.token = self._log_in(user, password, project)

    def _log_in(self, user: str, password: str, project: str) -> str:
        domain = {"id": "default"}
        who = {"user": {"name": user, "domain": domain, "password": password}}
        identity = {"methods": ["password"], "password": who}
        scope = {"project": {"name": project, "domain": domain}}
        body = {"auth": {"identity": identity, "scope": scope}}
        response = self.client.post("/identity/v3/auth/tokens", json=body)
        assert response.status_code == 201, response.text
        return response.headers["X-Subject-Token"]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        version: str = "",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send one request; a body of bytes goes out as it is, anything else as JSON."""
        sent = {"X-Auth-Token": self.token, "Accept": "application/json"}
        if version:
            sent["OpenStack-API-Version"] = f"{path.split('/')[1]} {version}"
        if body is not None:
            sent["Content-Type"] = "application/json"
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        response = self.client.request(
            method, path, headers={**sent, **(headers or {})}, content=content
        )
        is_json = "json" in response.headers.get("content-type", "")
        decoded = response.json() if response.content and is_json else None
        return Answer(response.status_code, response.headers, decoded)

    def until(self, path: str, holds: Callable[[Answer], Any], *, version: str = "") -> Answer:
        """Ask for `path` again until the answer holds; fail with the last one if it never does."""
        deadline = time.monotonic() + ENDS_S
        while not holds(answer := self.ask("GET", path, version=version)):
            assert time.monotonic() < deadline, answer
            time.sleep(POLL_S)
        return answer

    # -- what tests need to stand ready -------------------------------------------------------

    def image(
        self, name: str, content: bytes = bytes(MIB), disk_format: str = "raw", **properties: str
    ) -> str:
        """Make an image with data and return its id."""
        body = {"name": name, "disk_format": disk_format, "container_format": "bare"}
        image_id = self.ask("POST", f"{IMAGE}/images", {**body, **properties}).key("id")
        stream = {"Content-Type": "application/octet-stream"}
        path = f"{IMAGE}/images/{image_id}/file"
        assert self.ask("PUT", path, content, headers=stream).status == 204
        return image_id

    def volume(self, name: str, size_gib: int = 1) -> str:
        """Make a volume, wait until it is available, and return its id."""
        body = {"volume": {"name": name, "size": size_gib}}
        made = self.ask("POST", f"{VOLUME}/volumes", body, version="3.60").key("volume")["id"]
        self.until_volume(made, "available")
        return made

    def server(self, name: str, image_id: str, **wanted: Any) -> str:
        """Make a server, wait until it runs, and return its id."""
        return self.until_server(self.begin_server(name, image_id, **wanted), "ACTIVE")

    def begin_server(self, name: str, image_id: str, **wanted: Any) -> str:
        """Ask for a server and return its id."""
        server = {"name": name, "imageRef": image_id, "flavorRef": "42", "networks": "none"}
        body = {"server": {**server, **wanted}}
        return self.ask("POST", f"{COMPUTE}/servers", body, version="2.79").key("server")["id"]

    def until_server(self, server_id: str, status: str) -> str:
        """Wait until a server has a status and nothing is done to it, and return its id."""
        self.until(
            f"{COMPUTE}/servers/{server_id}",
            lambda got: (
                got.key("server")["status"] == status
                and got.key("server")["OS-EXT-STS:task_state"] is None
            ),
        )
        return server_id

    def until_volume(self, volume_id: str, status: str) -> None:
        """Wait until a volume has a status."""
        path = f"{VOLUME}/volumes/{volume_id}"
        self.until(path, lambda got: got.key("volume")["status"] == status)

    def attach(self, server_id: str, volume_id: str) -> None:
        """Attach a volume and wait until it is in use."""
        path = f"{COMPUTE}/servers/{server_id}/os-volume_attachments"
        self.ask("POST", path, {"volumeAttachment": {"volumeId": volume_id}}).key(
            "volumeAttachment"
        )
        self.until_volume(volume_id, "in-use")

    def delete_server(self, server_id: str) -> None:
        """Delete a server and wait until it is gone."""
        path = f"{COMPUTE}/servers/{server_id}"
        assert self.ask("DELETE", path).status == 204
        self.until(path, lambda got: got.status == 404)

    def delete_volume(self, volume_id: str) -> None:
        """Delete a volume and wait until it is gone."""
        path = f"{VOLUME}/volumes/{volume_id}"
        assert self.ask("DELETE", path).status == 202
        self.until(path, lambda got: got.status == 404)


class Cloud:
    """One `mooring up`, with all that a user needs to know about it."""

    def __init__(
        self,
        state_dir: Path,
        log: Path,
        *,
        kill_at: str = "",
        listen: str = "127.0.0.1:0",
        hosts: int = 1,
        hypervisor: str = "simulated",
    ) -> None:
        self.state_dir = state_dir
        self.process = CommandProcess(
            "up",
            *("--state-dir", str(state_dir), "--listen", listen),
            *("--hypervisor", hypervisor, "--hosts", str(hosts)),
            log=log,
            kill_at=kill_at,
        )
        self.url = self.process.ready
        self._open: list[Http] = []

    @property
    def clouds_yaml(self) -> Path:
        return self.state_dir / "clouds.yaml"

    def shell(self, user: str) -> Shell:
        """The stock command as `demo`, or as the administrator `mooring`."""
        return Shell(self.clouds_yaml, user)

    def shell_of_credential(self, user: str) -> Shell:
        """The same for who logs in by an application credential that the user makes."""
        shell, asking = self.shell(user), self.shell(user)
        made = asking.ask("application", "credential", "create", "key")
        del shell.environment["OS_CLIENT_CONFIG_FILE"], shell.environment["OS_CLOUD"]
        shell.environment |= {
            "OS_AUTH_URL": f"{self.url}/identity/v3",
            "OS_AUTH_TYPE": "v3applicationcredential",
            "OS_APPLICATION_CREDENTIAL_ID": made["ID"],
            "OS_APPLICATION_CREDENTIAL_SECRET": made["Secret"],
            "OS_SHARE_API_VERSION": "2.82",
        }
        return shell

    def connect(self, user: str, **options: Any) -> Connection:
        """An SDK connection as one of the same users."""
        config = OpenStackConfig(config_files=[str(self.clouds_yaml)], load_envvars=False)
        return Connection(config=config.get_one(user, **options))

    def connect_service(self, name: str) -> Connection:
        """An SDK connection as the service user of this name."""
        passwords = json.loads((self.state_dir / "passwords.json").read_text())
        domains = {"user_domain_id": "default", "project_domain_id": "default"}
        login = {"username": name, "password": passwords[name], "project_name": "service"}
        url = {"auth_url": f"{self.url}/identity/v3"}
        return connect(
            load_yaml_config=False,
            load_envvars=False,
            region_name="RegionOne",
            auth={**url, **login, **domains},
        )

    def http(self, user: str, password: str = "", project: str = "") -> Http:
        """Requests as a user of this cloud, in the project of the same name unless told."""
        passwords = json.loads((self.state_dir / "passwords.json").read_text())
        password = password or passwords[user]
        self._open.append(Http(self.url, user, password, project or user))
        return self._open[-1]

    def stop(self) -> int:
        """End the process as an operator would, and return how it ended."""
        for http in self._open:
            http.client.close()
        self.process.popen.terminate()
        return self.process.wait()
