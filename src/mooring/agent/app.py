"""An agent put together: its directory is locked, what another left is ended, then it serves."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from mooring.agent import (
    captures,
    certificate,
    copying,
    disks,
    guest_shares,
    host,
    membership,
    mirrors,
    moves,
    serial_sessions,
    servers,
    shares,
    snapshots,
    volume_captures,
    volume_snapshots,
    volumes,
)
from mooring.agent.connections import Connections
from mooring.agent.copying import Copying
from mooring.agent.drivers.base import VolumeDriver
from mooring.agent.drivers.directory import DirectoryDriver
from mooring.agent.drivers.remote import open_remote_pools
from mooring.agent.drivers.remote_files import Tools
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.events import EventLog
from mooring.agent.files import finish
from mooring.agent.fitting import Fitting
from mooring.agent.host import Agent
from mooring.agent.hypervisor import GONE, Hypervisor, News, Tell
from mooring.agent.hypervisor_memory import Remembered, Way, recall, remember
from mooring.agent.images import Check, ImageCache
from mooring.agent.known_storage import PoolPlace
from mooring.agent.late_disks import LateDisks
from mooring.agent.mounts import Mounts
from mooring.agent.move_identity import MoveIdentity
from mooring.agent.qemu_img import ImageInfo, QemuImg, read_virtual_bytes
from mooring.agent.run import Runner
from mooring.agent.seclusion import seclude
from mooring.agent.serving import build_app
from mooring.agent.settings import AgentSettings, PoolSettings, check_names
from mooring.agent.share_drivers.opening import open_share_pools
from mooring.agent.share_mounts.keeping import GuestShares
from mooring.agent.share_mounts.opening import open_mounters
from mooring.agent.share_mounts.users import ShareUsers
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent.unplugging import LET_GO
from mooring.errors import Conflict, Unavailable
from mooring.fence.journal import Journal
from mooring.fence.threads import run_to_end
from mooring.probe import NoProbe, Probe
from mooring.secret_file import remove_unfinished

if TYPE_CHECKING:
    from mooring.agent.libvirt.hypervisor import LibvirtHypervisor

log = structlog.get_logger()


class RunningAgent:
    """A started agent: its ASGI application, and its parts for whoever tests with it."""

    def __init__(self, agent: Agent, notice: str, gone: asyncio.Event) -> None:
        self.agent, self.gone = agent, gone
        self.app = build_app(
            agent,
            certificate.handlers,
            host.handlers,
            servers.handlers,
            disks.handlers,
            guest_shares.handlers,
            mirrors.handlers,
            copying.handlers,
            captures.handlers,
            moves.handlers,
            serial_sessions.handlers,
            shares.handlers,
            snapshots.handlers,
            volume_captures.handlers,
            volume_snapshots.handlers,
            volumes.handlers,
        )
        self.notice = notice
        """Why guests are slow, or only simulated though libvirt was wished for; else empty."""


class _Telling:
    """What takes the hypervisor's news: the host's, but for those that are for the agent alone."""

    def __init__(self, events: EventLog, gone: asyncio.Event) -> None:
        self._events, self._gone = events, gone
        self.late_disks: LateDisks | None = None
        """None until volumes are known: then all guests are looked at."""

    def __call__(self, news: News) -> None:
        if news.kind == GONE:
            self._gone.set()
        elif news.kind != LET_GO:
            self._events.add(news)
        elif self.late_disks is not None:
            self.late_disks.look(news)


@asynccontextmanager
async def open_agent(
    settings: AgentSettings, *, probe: Probe | None = None
) -> AsyncGenerator[RunningAgent]:
    """Start one host's agent; leaving stops it, and its guests go on.

    Raises Conflict when another agent has the state directory, Unavailable when what was asked for
    by name (libvirt, a pool's directory) cannot be used. `probe` passes `agent/<verb>/begin` and
    `agent/<verb>/acted` of every verb, and named points in the middle of some.
    """
    async with AsyncExitStack() as stack:
        hold(settings.state_dir, stack)
        await asyncio.to_thread(_remove_old_keys, settings)
        journal = Journal(settings.state_dir / "journal.sqlite")
        stack.push_async_callback(journal.close)
        runner = Runner(journal, str(settings.state_dir.absolute()))
        await runner.end_leftovers()
        await _look_at(journal, settings.state_dir / "boot_id")
        sweeping = asyncio.create_task(journal.keep_small())
        stack.callback(sweeping.cancel)
        running = await _build(settings, journal, runner, stack)
        running.agent.probe = probe or NoProbe()
        if running.agent.runs_guests:
            running.agent.hypervisor.probe = running.agent.probe
            running.agent.copying.watch(running.agent.probe)
        yield running


async def _build(
    settings: AgentSettings, journal: Journal, runner: Runner, stack: AsyncExitStack
) -> RunningAgent:
    qemu_img, events, gone = QemuImg(runner), EventLog(), asyncio.Event()
    tell = _Telling(events, gone)
    hypervisor, notice = await _start_hypervisor(settings, runner, tell)
    if hypervisor is not None:
        stack.push_async_callback(hypervisor.close)
    simulated = isinstance(hypervisor, SimulatedHypervisor) or settings.hypervisor == "simulated"
    mounts = Mounts(settings.mounts, settings.state_dir, runner)
    mounts.prepare()
    stack.push_async_callback(mounts.close)
    tools = Tools(settings.name, qemu_img, mounts, runner)
    drivers = _drivers(settings, tools, simulated=simulated)
    share_drivers = open_share_pools(settings, runner, simulated=simulated)
    for driver in (*drivers, *share_drivers):
        await driver.setup()
        stack.push_async_callback(driver.close)
    images = _open_images(settings, _look if simulated else qemu_img.check, stack)
    connections = _open_connections(settings, mounts, qemu_img, hypervisor, simulated=simulated)
    await connections.release_unused()
    tell.late_disks = _open_late_disks(hypervisor, connections, stack)
    agent = Agent(
        settings,
        journal=journal,
        hypervisor=hypervisor,
        drivers=drivers,
        share_drivers=share_drivers,
        images=images,
        connections=connections,
        mounts=mounts,
        events=events,
        copying=_open_copying(settings, hypervisor, images, stack),
        serial=_open_serial(hypervisor, stack),
        guest_shares=await _open_guest_shares(settings, runner, hypervisor, simulated=simulated),
    )
    events.add(News(kind="agent_started", server_id=""))
    return RunningAgent(agent, notice, gone)


def _open_images(settings: AgentSettings, check: Check, stack: AsyncExitStack) -> ImageCache:
    directory, reserve_bytes = settings.state_dir / "images", settings.image_reserve_mib << 20
    images = ImageCache(directory, check, reserve_bytes=reserve_bytes)
    images.prepare()
    sweeping = asyncio.create_task(images.keep_small())
    stack.callback(sweeping.cancel)
    return images


def _open_connections(
    settings: AgentSettings,
    mounts: Mounts,
    qemu_img: QemuImg,
    hypervisor: Hypervisor | None,
    *,
    simulated: bool,
) -> Connections:
    directory, fitting = settings.state_dir / "connections", Fitting(qemu_img)
    connections = Connections(directory, mounts, fitting, simulated=simulated)
    if hypervisor is not None:
        connections.admit = hypervisor.admit
    connections.prepare()
    return connections


def _open_late_disks(
    hypervisor: Hypervisor | None, connections: Connections, stack: AsyncExitStack
) -> LateDisks | None:
    if hypervisor is None:
        return None
    late_disks = LateDisks(hypervisor, connections)
    late_disks.look_at_all()
    stack.push_async_callback(late_disks.close)
    return late_disks


def _open_copying(
    settings: AgentSettings,
    hypervisor: Hypervisor | None,
    images: ImageCache,
    stack: AsyncExitStack,
) -> Copying | None:
    if hypervisor is None:
        return None
    copies = Copying(settings, hypervisor, images)
    stack.push_async_callback(copies.door.close)
    return copies


def _open_serial(
    hypervisor: Hypervisor | None, stack: AsyncExitStack
) -> serial_sessions.Sessions | None:
    if hypervisor is None:
        return None
    sessions = serial_sessions.Sessions(hypervisor)
    stack.push_async_callback(sessions.close_all)
    return sessions


async def _open_guest_shares(
    settings: AgentSettings, runner: Runner, hypervisor: Hypervisor | None, *, simulated: bool
) -> GuestShares | None:
    if hypervisor is None:
        return None
    mounters = open_mounters(settings, runner, simulated_host=simulated)
    users = ShareUsers(settings.state_dir / "share-users")
    address = settings.mounts.shares.share_address or settings.ip
    shared = GuestShares(settings.name, address, hypervisor, mounters, users)
    await shared.setup()
    return shared


def hold(state_dir: Path, stack: ExitStack | AsyncExitStack) -> None:
    """Make the state directory and hold it against other agents, until the stack is left.

    Raises Conflict when another agent has it.
    """
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(state_dir / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Conflict(
            f"Another agent runs in {state_dir}. Stop it, or give this one a directory of its own."
        ) from None


def _remove_old_keys(settings: AgentSettings) -> None:
    """Remove the private keys that a killed agent has left: unfinished ones, and former ones."""
    remove_unfinished(settings.state_dir)
    membership.forget_used_keys(settings.state_dir)
    MoveIdentity(settings).forget_former()


async def _look_at(journal: Journal, boot_file: Path) -> None:
    """After a reboot forget what was answered: the guests are gone."""
    if _has_rebooted(boot_file):
        await journal.forget_answers()
    # Only now: an agent that dies before leaves it to the next one to forget them.
    _note_boot(boot_file)
    for call in await journal.unfinished():
        log.info("a verb was interrupted", verb=call.verb, resource=call.resource)


def _has_rebooted(boot_file: Path) -> bool:
    """Return whether the machine started anew since the last agent noted that it did."""
    return boot_file.exists() and boot_file.read_text("ascii") != _read_boot_id()


def _note_boot(boot_file: Path) -> None:
    """Note which start of the machine this agent has seen."""
    # Were it lost with a power failure, answers from before would count after it.
    fresh = boot_file.with_suffix(".new")
    fresh.write_text(_read_boot_id(), "ascii")
    finish(fresh, boot_file)


def _read_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii")


async def _start_hypervisor(
    settings: AgentSettings, runner: Runner, tell: Tell
) -> tuple[Hypervisor | None, str]:
    """Return the hypervisor, and why it is less than was wished for, "" if it is not.

    A host that runs no servers has none.
    """
    if "compute" not in settings.roles:
        seclude(settings.state_dir)
        return None, ""
    notice, state_dir = "", settings.state_dir
    known = await run_to_end(lambda: recall(state_dir))
    kind = known.choose(settings.hypervisor, state_dir)
    if kind != "simulated":
        try:
            real = await _start_libvirt(settings, runner, tell, known.way)
        except Unavailable as error:
            if kind == "libvirt":
                raise
            notice = error.public
            log.warning("guests are only simulated on this host", reason=str(error))
        else:
            await run_to_end(lambda: remember(state_dir, Remembered("libvirt", real.way)))
            return real, real.notice
    seclude(state_dir)
    simulated = SimulatedHypervisor(settings)
    await simulated.start(tell)
    await run_to_end(lambda: remember(state_dir, Remembered("simulated")))
    return simulated, notice


async def _start_libvirt(
    settings: AgentSettings, runner: Runner, tell: Tell, way: Way
) -> LibvirtHypervisor:
    try:
        from mooring.agent.libvirt.hypervisor import LibvirtHypervisor
    except ImportError as error:
        raise Unavailable(
            "libvirt's Python binding is missing; install the extra `agent` of mooring (it needs "
            "libvirt-dev), or choose the simulated hypervisor.",
            private=str(error),
        ) from error
    hypervisor = LibvirtHypervisor(settings, runner, way)
    await hypervisor.start(tell)
    if not hypervisor.is_passed:
        seclude(settings.state_dir)
    return hypervisor


def _pools(settings: AgentSettings, *, simulated: bool) -> tuple[PoolSettings, ...]:
    if "volume" not in settings.roles:
        return ()
    usual = PoolSettings()
    return settings.pools or (replace(usual, driver="simulated") if simulated else usual,)


def _drivers(settings: AgentSettings, tools: Tools, *, simulated: bool) -> list[VolumeDriver]:
    """Return the drivers of all pools of volumes. Raises Invalid."""
    pools = _pools(settings, simulated=simulated)
    drivers = [driver for pool in pools for driver in _open_pool(settings, pool, tools)]
    check_names(settings, [driver.pool.name for driver in drivers])
    return drivers


def _open_pool(settings: AgentSettings, pool: PoolSettings, tools: Tools) -> list[VolumeDriver]:
    """Return the driver of a pool, or those of its shares. Raises Invalid."""
    if pool.driver == "simulated":
        return [SimulatedDriver(pool, settings.state_dir / f"pool-{pool.name}.sqlite")]
    if pool.driver == "directory":
        known = settings.state_dir / f"pool-{pool.name}.identity"
        place = PoolPlace(settings.state_dir / pool.path, settings.name, known)
        return [DirectoryDriver(pool, place, tools.qemu_img)]
    return [*open_remote_pools(pool, tools)]


async def _look(path: Path, disk_format: str) -> ImageInfo:
    """Check an image without qemu-img, which a simulated host need not have."""
    size_bytes = await run_to_end(lambda: read_virtual_bytes(path, disk_format))
    return ImageInfo(disk_format, size_bytes)
