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

import structlog
from msgspec import Struct

from mooring.agent.emulator_files import EmulatorFiles, find_user
from mooring.agent.run import Runner, find_program
from mooring.agent.seclusion import EMULATOR, let_emulator_pass, named_root
from mooring.errors import Unavailable
from mooring.fence.threads import run_to_end
from mooring.lab.namespaces import Namespace, Network, Unnoted, check_able
from mooring.lab.processes import HostCommand
from mooring.lab.residents import SHARES, Resident, end_residents, find_homes, find_residents

if TYPE_CHECKING:
    from mooring.config import Settings

log = structlog.get_logger()
EMULATORS = "etc/libvirt/qemu.conf"
"""What a host's daemon is told of QEMU, below the host's directory."""
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
    emulator_user: str = EMULATOR

    def before(self) -> tuple[str, ...]:
        """Return what goes before a command that is to run in the host, beside its daemon."""
        apart = (find_program("ip"), "netns", "exec", self.namespace.name)
        alone = (find_program("unshare"), "--mount", "--uts", "--")
        inside = (sys.executable, "-m", "mooring.lab.inside", str(self.directory), self.name)
        return (*apart, *alone, *inside, self.emulator_user)


class RealHosts:
    """The hosts of one lab, which the path of its state directory names."""

    def __init__(
        self, state_path: Path, names: Sequence[str], emulator_user: str = EMULATOR
    ) -> None:
        self._network, self._user = Network(state_path), emulator_user
        self._directory = state_path / "hosts"
        self.hosts = [
            RealHost(
                name=name,
                directory=self._directory / name,
                namespace=self._network.namespace(number),
                emulator_user=emulator_user,
            )
            for number, name in enumerate(names, 1)
        ]

    async def open(self) -> None:
        """Make what they live in, and end what a lab has left whose directory is gone.

        Raises Unavailable where this machine does not let us.
        """
        for passage in (self._directory.parent, self._directory):
            passage.mkdir(mode=0o700, parents=True, exist_ok=True)
            await run_to_end(lambda one=passage: let_emulator_pass(one, self._user))
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
    lab = RealHosts(settings.state_path, names, await _choose_user(settings))
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


async def _choose_user(settings: Settings) -> str:
    """Return whom guests run as. Raises Unavailable: that user does not get at their files.

    Where the release before ran them as root, they go on so instead, and the log says it.
    """
    user = await run_to_end(lambda: find_user(settings.emulator_user))
    emulator = EmulatorFiles(Runner(Unnoted()), user if user.uid else None)
    try:
        await emulator.check_passes(settings.state_path.parent)
    except Unavailable as error:
        daemons = (settings.state_path / "hosts").glob(f"*/{EMULATORS}")
        if not any(named_root(conf) for conf in daemons):
            raise
        log.warning("guests go on to run as root, with all its rights", reason=error.public)
        return "root"
    return user.name


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
