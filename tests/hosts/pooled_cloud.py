"""A cloud with real guests and a pool for each image format; control plane and agent apart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from tests.contract.clients import VOLUME, Shell
from tests.hosts.real_cloud import RealCloud
from tests.kill.processes import CommandProcess

HOST = "host-1"


class PooledCloud(RealCloud):
    """`mooring serve` that is killed and started again, beside a `mooring agent` that stays.

    `pools` has the format of each pool of the host.
    """

    def __init__(self, directory: Path, pools: Mapping[str, str]) -> None:
        self._directory, self._socket = directory, directory / "agent.sock"
        storage = "".join(
            f'[[pools]]\nname = "{name}"\npath = "{name}"\nformat = "{image_format}"\n'
            for name, image_format in pools.items()
        )
        (directory / "storage.toml").write_text(storage)
        (directory / "agent.toml").write_text(f'storage = "{directory / "storage.toml"}"\n')
        self._agent = self._start_agent()
        try:
            super().__init__(directory)
        except BaseException:
            self._stop_agent()
            raise

    def _start_agent(self) -> CommandProcess:
        return CommandProcess(
            "agent",
            *("--config", str(self._directory / "agent.toml")),
            *("--name", HOST, "--hypervisor", "libvirt"),
            *("--state-dir", str(self._agent_dir)),
            *("--socket", str(self._socket)),
            log=self._directory / "agent.log",
        )

    @property
    def _agent_dir(self) -> Path:
        """In `hosts`, where RealCloud looks for files."""
        return self._directory / "state" / "hosts" / HOST

    def start(self, kill_at: str = "") -> None:
        self.process = CommandProcess(
            "serve",
            *("--state-dir", str(self.state_dir), "--listen", self._listen),
            *("--agent", f"{HOST}={self._socket}"),
            log=self._log,
            kill_at=kill_at,
        )
        self._listen = self.process.ready.removeprefix("http://")
        self.demo, self.admin = self._connect("demo"), self._connect("admin")

    def clean_up(self) -> None:
        super().clean_up()
        self._stop_agent()

    def _stop_agent(self) -> None:
        self._agent.popen.terminate()
        self._agent.wait()

    @contextmanager
    def agent_away(self) -> Generator[None]:
        """The agent is not there; its guests are."""
        self._stop_agent()
        try:
            yield
        finally:
            self._agent = self._start_agent()

    def order(self, word: Literal["suspend", "resume"], server_id: str) -> None:
        """Do something with a guest behind the agent's back, by libvirt itself.

        A libvirt in the agent's process is nobody else's, so the agent is away meanwhile.
        """
        module = "tests.hosts.order_libvirt"
        command = [sys.executable, "-m", module, str(self._agent_dir), word, server_id]
        with self.agent_away():
            subprocess.run(command, check=True)

    # -- volumes ----------------------------------------------------------------------------

    def make_type(self, pool: str, *, name: str = "", **extra_specs: str) -> str:
        """Make a volume type of a pool, under the pool's name unless told, and return its id."""
        specs = {"pool_name": pool, **extra_specs}
        body = {"volume_type": {"name": name or pool, "extra_specs": specs}}
        return self.admin.ask("POST", f"{VOLUME}/types", body).key("volume_type")["id"]

    def make_volume(self, volume_type: str, image_id: str) -> str:
        """Make a volume of 1 GiB from an image, and return its id once it is available."""
        body = {"volume": {"size": 1, "imageRef": image_id, "volume_type": volume_type}}
        made = self.demo.ask("POST", f"{VOLUME}/volumes", body, version="3.60").key("volume")["id"]
        self.demo.until_volume(made, "available")
        return made

    def shell(self) -> Shell:
        """The stock command, as a user of the cloud."""
        return Shell(self.state_dir / "clouds.yaml", "demo")

    def file_of(self, volume_id: str) -> Path:
        """The image of a volume."""
        [found] = [one for one in self.files(volume_id) if one.name == f"volume-{volume_id}"]
        return found

    def file_bytes(self, volume_id: str, image_format: str) -> int:
        """How big a volume's image is for a guest, also while one has it."""
        info = ["qemu-img", "info", "-U", "--output=json", "-f", image_format]
        done = subprocess.run(
            [*info, str(self.file_of(volume_id))], capture_output=True, check=True
        )
        return msgspec.json.decode(done.stdout)["virtual-size"]

    def used_gib(self) -> int:
        """How many GiB of volumes the quota of the project counts, what is reserved included."""
        project = self.demo.ask("GET", "/identity/v3/auth/tokens", headers=self._subject())
        project_id = project.key("token")["project"]["id"]
        answer = self.admin.ask("GET", f"{VOLUME}/os-quota-sets/{project_id}?usage=true")
        gigabytes = answer.key("quota_set")["gigabytes"]
        return gigabytes["in_use"] + gigabytes["reserved"]

    def _subject(self) -> dict[str, str]:
        return {"X-Subject-Token": self.demo.token}
