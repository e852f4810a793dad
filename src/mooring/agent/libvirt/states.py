"""What libvirt says about a domain, in the agent's words. Blocking."""

from __future__ import annotations

from typing import Any

import libvirt

from mooring.agent.hypervisor import News, no_disk
from mooring.agent.libvirt import devices, domain_xml
from mooring.agent.libvirt.devices import Places
from mooring.agent.libvirt.domain_xml import DefinedDisk
from mooring.agent.libvirt.swapped import ATTACHMENT_ALIAS
from mooring.agent.sources import shown
from mooring.agent.unplugging import LET_GO
from mooring.agent_api.disks import GuestDisk
from mooring.agent_api.servers import Guest, GuestState

_ENDED_BADLY = {
    int(libvirt.VIR_DOMAIN_SHUTOFF_CRASHED),
    int(libvirt.VIR_DOMAIN_SHUTOFF_FAILED),
    int(libvirt.VIR_DOMAIN_SHUTOFF_DAEMON),
}
_KEEPS_MEMORY = {
    int(libvirt.VIR_DOMAIN_SHUTOFF_UNKNOWN),
    int(libvirt.VIR_DOMAIN_SHUTOFF_SAVED),
    int(libvirt.VIR_DOMAIN_SHUTOFF_FAILED),
}
"""Why a guest may be off of which libvirt has saved memory: one that ended otherwise since it was
let go on is not to have it again. A libvirt that was started anew does not know why."""
_PAUSED = {int(libvirt.VIR_DOMAIN_PAUSED), int(libvirt.VIR_DOMAIN_PMSUSPENDED)}
_STOPPED_WHY = {
    int(libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN): "shut down",
    int(libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED): "switched off",
    int(libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED): "crashed",
    int(libvirt.VIR_DOMAIN_EVENT_STOPPED_MIGRATED): "migrated",
    int(libvirt.VIR_DOMAIN_EVENT_STOPPED_SAVED): "saved",
    int(libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED): "QEMU failed",
}
_CRASHES = {
    int(libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED),
    int(libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED),
}


def state_of(domain: Any) -> GuestState:
    """Return a guest's state."""
    state, reason = domain.state()
    if state == libvirt.VIR_DOMAIN_CRASHED:
        return "crashed"
    if state == libvirt.VIR_DOMAIN_SHUTOFF:
        if reason == libvirt.VIR_DOMAIN_SHUTOFF_MIGRATED:
            return "migrated"
        if reason in _KEEPS_MEMORY and domain.hasManagedSaveImage(0):
            return "suspended"
        return "crashed" if reason in _ENDED_BADLY else "stopped"
    if state == libvirt.VIR_DOMAIN_PAUSED and reason == libvirt.VIR_DOMAIN_PAUSED_MIGRATION:
        # One that comes gets its definition when it is there; one that goes keeps it.
        return "paused" if domain.isPersistent() else "prelaunched"
    return "paused" if state in _PAUSED else "running"


def show_if_there(domain: Any) -> Guest | None:
    """Return a guest with its disks on both sides; None when it has gone since it was found."""
    try:
        return show(domain)
    except libvirt.libvirtError as error:
        if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
            raise
        return None


def show(domain: Any) -> Guest:
    """Return a guest with its disks on both sides."""
    places = devices.read(domain)
    config = places.config
    rescue = (places.live or config).rescue
    return Guest(
        server_id=config.server_id,
        name=config.name,
        state=state_of(domain),
        vcpus=config.vcpus,
        memory_mib=config.memory_mib,
        image_id=config.image_id,
        root_device=(places.live or config).root_device,
        disks=show_disks(places),
        shares=(places.live or config).shares,
        metadata=config.metadata,
        has_drive=(places.live or config).has_drive,
        rescue_image_id=rescue.image_id if rescue else "",
        swap_mib=config.swap_mib,
    )


def show_disks(places: Places) -> list[GuestDisk]:
    """Return the volumes of a guest, in the order of their device names."""
    live = {disk.volume_id: disk for disk in places.live.volumes} if places.live else {}
    config = {disk.volume_id: disk for disk in places.config.volumes}
    found = [
        _show_disk(disk, live=disk.volume_id in live, persistent=disk.volume_id in config)
        for disk in (config | live).values()
    ]
    return sorted(found, key=lambda disk: (len(disk.device), disk.device))


def show_disk(domain: Any, volume_id: str) -> GuestDisk:
    """Return a volume of a guest. Raises NotFound: it has let go of it meanwhile."""
    for disk in show_disks(devices.read(domain)):
        if disk.volume_id == volume_id:
            return disk
    raise no_disk(domain.UUIDString(), volume_id)


def news_of(domain: Any, event: int, detail: int) -> News | None:
    """Return an event of a domain's life as news; None for what nobody asks about."""
    if not domain.name().startswith(domain_xml.NAME_PREFIX):
        return None
    server_id = domain.UUIDString()
    if event == libvirt.VIR_DOMAIN_EVENT_STARTED:
        return News(kind="guest_started", server_id=server_id)
    if event == libvirt.VIR_DOMAIN_EVENT_STOPPED:
        kind = "guest_crashed" if detail in _CRASHES else "guest_stopped"
        return News(kind=kind, server_id=server_id, reason=_STOPPED_WHY.get(detail, ""))
    if event == libvirt.VIR_DOMAIN_EVENT_CRASHED:
        return News(kind="guest_crashed", server_id=server_id, reason="panicked")
    return None


def news_of_removal(domain: Any, alias: str) -> News | None:
    """Return that a guest has let go of a volume as news, whether it was to or not."""
    is_ours = domain.name().startswith(domain_xml.NAME_PREFIX)
    if not is_ours or not alias.startswith(ATTACHMENT_ALIAS):
        return None
    return News(kind=LET_GO, server_id=domain.UUIDString())


def _show_disk(disk: DefinedDisk, *, live: bool, persistent: bool) -> GuestDisk:
    path, disk_format = shown(disk.source)
    return GuestDisk(
        volume_id=disk.volume_id,
        attachment_id=disk.attachment_id,
        device=disk.device,
        bus=disk.bus,
        path=path,
        format=disk_format,
        boot_index=disk.boot_index,
        read_only=disk.read_only,
        live=live,
        persistent=persistent,
    )
