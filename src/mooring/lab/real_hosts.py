"""Real hosts of a lab: each with namespaces, a libvirt daemon and an agent of its own.

The first one keeps the volumes, in a directory that all of them see: so servers move between them.
Daemons and guests outlive `mooring up`, as they outlive an agent on a machine of its own; where no
guest is left, a lab that is stopped takes daemons, namespaces and bridge away.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.agent.run import find_program
from mooring.fence.threads import run_to_end
from mooring.lab.namespaces import Namespace, Network, check_able
from mooring.lab.processes import HostCommand
from mooring.lab.residents import SHARES, Resident, end_residents, find_homes, find_residents

if TYPE_CHECKING:
    from mooring.config import Settings

_STORAGE = "storage.toml"
_MOUNTS = f"""[mounts.shares]
share_address = "{{address}}"
nfs_mount_point_base = "/{SHARES}/nfs"
cephfs_mount_point_base = "/{SHARES}/cephfs"

"""


class RealHost(Struct, frozen=True, kw_only=True):
    """One host: its name, its directory, and the namespace that it lives in."""

    name: str
    directory: Path
    namespace: Namespace

    def before(self) -> tuple[str, ...]:
        """Return what goes before a command that is to run in the host, beside its daemon."""
        apart = (find_program("ip"), "netns", "exec", self.namespace.name)
        alone = (find_program("unshare"), "--mount", "--uts", "--")
        inside = (sys.executable, "-m", "mooring.lab.inside", str(self.directory), self.name)
        return (*apart, *alone, *inside)


class RealHosts:
    """The hosts of one lab, which the path of its state directory names."""

    def __init__(self, state_path: Path, names: Sequence[str]) -> None:
        self._network = Network(state_path)
        self._directory = state_path / "hosts"
        self.hosts = [
            RealHost(
                name=name,
                directory=self._directory / name,
                namespace=self._network.namespace(number),
            )
            for number, name in enumerate(names, 1)
        ]

    async def open(self) -> None:
        """Make what they live in, and end what a lab has left whose directory is gone.

        Raises Unavailable where this machine does not let us.
        """
        await self._network.open([host.namespace for host in self.hosts])
        homes = await run_to_end(lambda: find_homes(self._directory))
        for namespace in self._network.standing():
            there = await _residents(namespace)
            strays = [one for one in there if one.home not in homes]
            await end_residents(strays, signal.SIGKILL)

    async def close(self, *, guests: bool = False) -> list[str]:
        """Take hosts away that have no guest, or with `guests` each with its guests.

        Also those that an earlier start had beside these. Returns the names of those that stay.
        Raises Unavailable.
        """
        names = {host.namespace: host.name for host in self.hosts}
        stay: list[str] = []
        for namespace in self._network.standing():
            there = await _residents(namespace)
            if not guests and any(one.is_guest for one in there):
                stay.append(names.get(namespace, namespace.name))
                continue
            await end_residents([one for one in there if one.is_daemon], signal.SIGTERM)
            await end_residents(await _residents(namespace), signal.SIGKILL)
            await self._network.close([namespace])
        return stay


async def _residents(namespace: Namespace) -> list[Resident]:
    return await run_to_end(lambda: find_residents(namespace.file))


async def prepare(
    settings: Settings, names: Sequence[str], stack: AsyncExitStack, say: Callable[[str], None]
) -> list[HostCommand]:
    """Make what the hosts live in, and return how they are started.

    Raises Invalid where this machine cannot have them, Unavailable when it refuses.
    """
    await check_able(len(names))
    lab = RealHosts(settings.state_path, names)
    stack.push_async_callback(_take_away, lab, say)
    await lab.open()
    shared = ", ".join(f'"{name}"' for name in names)
    pools = f'[[pools]]\nname = "shared"\npath = "volumes"\nhosts = [{shared}]\n'
    keeper = lab.hosts[0].directory
    for host in lab.hosts:
        host.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        mounts = _MOUNTS.format(address=host.namespace.address)
        storage = mounts + pools if host.directory == keeper else mounts
        (host.directory / _STORAGE).write_text(storage, "utf-8")
    return [_command(settings, host, keeper) for host in lab.hosts]


def _command(settings: Settings, host: RealHost, keeper: Path) -> HostCommand:
    keeps = host.directory == keeper
    return HostCommand(
        name=host.name,
        directory=host.directory,
        before=host.before(),
        hypervisor="libvirt",
        options=("--role", "all" if keeps else "compute"),
        settings={
            "log_level": settings.log_level,
            "move_address": host.namespace.address,
            "copy_listen": f"{host.namespace.address}:0",
            "copy_mib_per_s": str(settings.copy_mib_per_s),
            "storage": str(host.directory / _STORAGE),
        },
    )


async def _take_away(lab: RealHosts, say: Callable[[str], None]) -> None:
    if stay := await lab.close():
        say(f"guests go on in {', '.join(stay)}; start the lab again to have them")
