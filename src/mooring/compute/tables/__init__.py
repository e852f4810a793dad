"""What the compute service remembers. Connection data is not among it (facts/compute.md 4.14)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    ForeignKey,
    Index,
    UniqueConstraint,
    false,
    func,
    select,
    text,
)
from sqlalchemy.orm import Mapped, column_property, declared_attr, mapped_column

from mooring.compute.tables.base import Base
from mooring.compute.tables.consoles import ConsoleToken
from mooring.compute.tables.draining import HostDrain
from mooring.compute.tables.hosting import Host, HostFencing
from mooring.compute.tables.placing import Aggregate, AggregateHost, ServerGroup, ServerGroupMember
from mooring.compute.tables.quotas import QuotaDefault, QuotaLimit, QuotaLock
from mooring.compute.tables.sharing import ShareMapping, SharePlace
from mooring.store.base import Json, UtcTime
from mooring.store.numbers import NEVER_AGAIN

__all__ = ["Aggregate", "AggregateHost", "Base", "ConsoleToken", "Host", "HostDrain"]
__all__ += ["HostFencing"]
__all__ += ["ServerGroup", "ServerGroupMember"]
__all__ += ["QuotaDefault", "QuotaLimit", "QuotaLock", "ShareMapping", "SharePlace"]

_SERVER = "servers.id"
_COUNTED = ("user_id", "vcpus", "held_vcpus", "memory_mib", "held_memory_mib")


class Flavor(Base):
    """A size that servers come in."""

    __tablename__ = "flavors"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    vcpus: Mapped[int]
    memory_mib: Mapped[int]
    disk_gib: Mapped[int]
    ephemeral_gib: Mapped[int] = mapped_column(default=0)
    swap_mib: Mapped[int] = mapped_column(default=0)
    rxtx_factor: Mapped[float] = mapped_column(default=1.0)
    is_public: Mapped[bool] = mapped_column(default=True)
    disabled: Mapped[bool] = mapped_column(default=False)
    description: Mapped[str | None]
    extra_specs: Mapped[dict[str, str]] = mapped_column(Json, default=dict)
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class FlavorAccess(Base):
    """A project that may use a flavor which is not public."""

    __tablename__ = "flavor_access"

    flavor_id: Mapped[str] = mapped_column(
        ForeignKey("flavors.id", ondelete="CASCADE"), primary_key=True
    )
    project_id: Mapped[str] = mapped_column(primary_key=True)


class Server(Base):
    """One server. A deleted one stays as a row with `deleted_at` for those who ask for it.

    vm_state and task_state are those of facts/compute.md 1.1; power_state is its number. The size
    is copied from the flavor, so that deleting or changing the flavor changes no server.
    """

    __tablename__ = "servers"
    __table_args__ = (
        Index("servers_of_project", "project_id", "created_at", "id"),
        Index("servers_on_host", "host"),
        Index("servers_deleted", "deleted_at"),
        # All that quotas are summed up from, so that nobody reads the rows themselves.
        Index("servers_used", "project_id", "deleted_at", *_COUNTED),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str]
    user_id: Mapped[str]
    name: Mapped[str]
    description: Mapped[str | None]
    hostname: Mapped[str]
    vm_state: Mapped[str]
    task_state: Mapped[str | None]
    power_state: Mapped[int] = mapped_column(default=0)
    state_before_error: Mapped[str | None]
    """The vm_state to go back to once its released block devices are gone; None while that is not
    all that keeps it in ERROR."""
    host: Mapped[str | None]
    """Name of the host that has it, or last had it; None before one was chosen."""
    zone: Mapped[str | None]
    """The availability zone it is in."""
    pinned_zone: Mapped[str | None]
    """The availability zone that the user asked for."""
    image_id: Mapped[str] = mapped_column(default="")
    """Empty when it boots from a volume."""
    image_properties: Mapped[dict[str, Any]] = mapped_column(Json, default=dict)
    flavor_id: Mapped[str]
    flavor_name: Mapped[str]
    vcpus: Mapped[int]
    memory_mib: Mapped[int]
    disk_gib: Mapped[int]
    ephemeral_gib: Mapped[int] = mapped_column(default=0)
    swap_mib: Mapped[int] = mapped_column(default=0)
    extra_specs: Mapped[dict[str, str]] = mapped_column(Json, default=dict)
    held_vcpus: Mapped[int] = mapped_column(default=0, server_default="0")
    held_memory_mib: Mapped[int] = mapped_column(default=0, server_default="0")
    """What counts against the quota besides its size, while a resize may get or give back more."""
    network: Mapped[str] = mapped_column(default="auto")
    """auto: user-mode NAT; none: nothing."""
    key_name: Mapped[str | None]
    public_key: Mapped[str | None]
    user_data: Mapped[str | None]
    config_drive: Mapped[bool] = mapped_column(default=False)
    disk_config: Mapped[str] = mapped_column(default="MANUAL")
    access_ip_v4: Mapped[str] = mapped_column(default="")
    access_ip_v6: Mapped[str] = mapped_column(default="")
    locked_by: Mapped[str | None]
    """owner or admin; None while unlocked."""
    locked_reason: Mapped[str | None]
    root_device_name: Mapped[str] = mapped_column(default="/dev/vda")
    root_bus: Mapped[str] = mapped_column(default="virtio", server_default="virtio")
    """What its root disk on the host is on; of one that boots from a volume that row says it."""
    disk_bus: Mapped[str] = mapped_column(default="virtio", server_default="virtio")
    """What its swap disk is on, and each volume that comes later, as its image asks."""
    cdrom_bus: Mapped[str] = mapped_column(default="scsi", server_default="scsi")
    """What its config drive is on, if it has one."""
    reservation_id: Mapped[str]
    launch_index: Mapped[int] = mapped_column(default=0)
    scheduler_hints: Mapped[dict[str, Any]] = mapped_column(Json, default=dict)
    trusted_certificates: Mapped[list[str] | None] = mapped_column(Json)
    shelved_image_id: Mapped[str] = mapped_column(default="", server_default="")
    """The image that has its root disk, from when it was put away until that is back."""
    shelved_at: Mapped[datetime | None] = mapped_column(UtcTime)
    """When that image was whole."""
    launched_at: Mapped[datetime | None] = mapped_column(UtcTime)
    terminated_at: Mapped[datetime | None] = mapped_column(UtcTime)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)
    deleted_at: Mapped[datetime | None] = mapped_column(UtcTime)


class ServerMetadata(Base):
    """One key of a server's metadata."""

    __tablename__ = "server_metadata"

    server_id: Mapped[str] = mapped_column(
        ForeignKey(_SERVER, ondelete="CASCADE"), primary_key=True
    )
    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class ServerTag(Base):
    """One tag of a server."""

    __tablename__ = "server_tags"

    server_id: Mapped[str] = mapped_column(
        ForeignKey(_SERVER, ondelete="CASCADE"), primary_key=True
    )
    tag: Mapped[str] = mapped_column(primary_key=True)


class DiskPlace(Base):
    """A host at which a server's volume is, or is about to be; a volume may be at several.

    state   reserved: the volume service keeps it for the server; an operation gives it to the
                      host, or a rebuild that failed left it so
            attached: the host has it
    A volume that came by the old calls has a place without an attachment (specs 001).
    """

    __tablename__ = "disk_places"
    __table_args__ = (CheckConstraint("state IN ('reserved', 'attached')", name="known_place"),)

    block_device_id: Mapped[str] = mapped_column(
        ForeignKey("block_devices.id", ondelete="CASCADE"), primary_key=True
    )
    host: Mapped[str] = mapped_column(primary_key=True)
    """Empty while no host was chosen."""
    attachment_id: Mapped[str | None]
    """The volume service's attachment; from it the connection data is fetched when needed."""
    state: Mapped[str] = mapped_column(default="reserved")
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)


class BlockDevice(Base):
    """A disk of a server: on the host (destination `local`) or a volume, at its `DiskPlace`s.

    state   reserving: wanted, not in the guest yet
            attached:  the guest has it
            released:  the guest let go of it, a host or the volume service has not
    Volumes are listed in the order of `position`. A row goes as soon as nothing holds the volume.
    """

    __tablename__ = "block_devices"
    __table_args__ = (
        UniqueConstraint("server_id", "volume_id", name="one_device_for_each_volume"),
        UniqueConstraint("server_id", "device_name", name="one_device_for_each_name"),
        CheckConstraint("state IN ('reserving', 'attached', 'released')", name="known_state"),
        CheckConstraint("destination_type IN ('local', 'volume')", name="known_destination"),
        Index("block_devices_of_volume", "volume_id"),
    )

    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(unique=True)
    """Shown as bdm_uuid."""
    server_id: Mapped[str] = mapped_column(ForeignKey(_SERVER))
    state: Mapped[str] = mapped_column(default="reserving")
    source_type: Mapped[str]
    """volume, image, snapshot or blank."""
    destination_type: Mapped[str]
    boot_index: Mapped[int | None]
    """0 for the root disk; None never boots."""
    device_name: Mapped[str | None]
    source_id: Mapped[str | None]
    """The image or snapshot it is made from; of the copy of a volume that is migrated under the
    guest, the volume."""
    volume_id: Mapped[str | None]
    volume_size_gib: Mapped[int | None]
    volume_type: Mapped[str | None]
    multiattach: Mapped[bool] = mapped_column(default=False)
    delete_on_termination: Mapped[bool] = mapped_column(default=False)
    tag: Mapped[str | None]
    guest_format: Mapped[str | None]
    device_type: Mapped[str | None]
    disk_bus: Mapped[str | None]
    """What a volume is on in the guest, None for virtio; of a disk on the host what was asked."""
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)

    @declared_attr
    @classmethod
    def attachment_id(cls) -> Mapped[str | None]:
        """Return, read only, the attachment where the server runs, else of the first place."""
        here = (DiskPlace.host == func.coalesce(Server.host, "")).desc()
        query = (
            select(DiskPlace.attachment_id)
            .join(Server, Server.id == cls.server_id)
            .where(DiskPlace.block_device_id == cls.id)
            .order_by(here, DiskPlace.host)
            .limit(1)
        )
        return column_property(query.correlate_except(DiskPlace, Server).scalar_subquery())


class InstanceAction(Base):
    """What somebody did to a server (facts/compute.md 1.8). `message` is "Error" when it failed."""

    __tablename__ = "instance_actions"
    __table_args__ = (Index("instance_actions_of_server", "server_id", "id"), NEVER_AGAIN)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    server_id: Mapped[str]
    action: Mapped[str]
    request_id: Mapped[str]
    user_id: Mapped[str]
    project_id: Mapped[str]
    saga_id: Mapped[str | None]
    """The operation that does it, for `mooring operations show`."""
    message: Mapped[str | None]
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)


class InstanceActionEvent(Base):
    """One part of an action; `result` is Success or Error, None while it lasts."""

    __tablename__ = "instance_action_events"
    __table_args__ = (
        Index(
            "one_open_event_of_each_name",
            "action_id",
            "event",
            unique=True,
            sqlite_where=text("finished_at IS NULL"),
            postgresql_where=text("finished_at IS NULL"),
        ),
        Index("events_of_action", "action_id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    action_id: Mapped[int] = mapped_column(ForeignKey("instance_actions.id", ondelete="CASCADE"))
    event: Mapped[str]
    host: Mapped[str | None]
    result: Mapped[str | None]
    details: Mapped[str | None]
    """The public message of the error."""
    traceback: Mapped[str | None]
    """The private message of the error, for administrators."""
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcTime)


class Fault(Base):
    """Why something went wrong with a server; the newest one is shown while it is in ERROR."""

    __tablename__ = "faults"
    __table_args__ = (Index("faults_of_server", "server_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    server_id: Mapped[str]
    code: Mapped[int]
    message: Mapped[str]
    """At most 255 characters."""
    details: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class Migration(Base):
    """A move of a server from one host to another (facts/compute.md 1.9, 11.4).

    asked  what its user wants of it while it lasts: "", abort or force_complete
    """

    __tablename__ = "migrations"
    __table_args__ = (
        Index("migrations_of_server", "server_id"),
        Index("migrations_by_time", "created_at", "id"),
        Index("migrations_by_status", "status"),
        NEVER_AGAIN,
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    uuid: Mapped[str] = mapped_column(unique=True)
    """Placement knows it by this, as who holds the host that is left."""
    server_id: Mapped[str]
    saga_id: Mapped[str]
    type: Mapped[str]
    """live-migration, migration, resize or evacuation."""
    status: Mapped[str]
    asked: Mapped[str] = mapped_column(default="")
    source: Mapped[str]
    destination: Mapped[str | None]
    old_flavor_id: Mapped[str]
    new_flavor_id: Mapped[str]
    old_size: Mapped[dict[str, Any] | None] = mapped_column(Json)
    """The size to go back to (`flavors.sizes.Size`); None where a move cannot be reverted."""
    old_vm_state: Mapped[str] = mapped_column(default="", server_default="")
    """active or stopped, as the server was before such a move."""
    by_drain: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether a drain of the host moves the server while it is off, and is to confirm that."""
    memory_total_bytes: Mapped[int] = mapped_column(default=0)
    memory_processed_bytes: Mapped[int] = mapped_column(default=0)
    memory_remaining_bytes: Mapped[int] = mapped_column(default=0)
    disk_total_bytes: Mapped[int] = mapped_column(default=0)
    disk_processed_bytes: Mapped[int] = mapped_column(default=0)
    disk_remaining_bytes: Mapped[int] = mapped_column(default=0)
    user_id: Mapped[str]
    project_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)


class Keypair(Base):
    """A user's public key for logging in to servers."""

    __tablename__ = "keypairs"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    user_id: Mapped[str]
    name: Mapped[str]
    type: Mapped[str] = mapped_column(default="ssh")
    """ssh or x509."""
    public_key: Mapped[str]
    fingerprint: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(UtcTime)

    __table_args__ = (
        UniqueConstraint("user_id", "name", name="one_keypair_of_each_name"),
        NEVER_AGAIN,
    )
