"""What the volume service remembers. Connection data is in here only, and sealed."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, false
from sqlalchemy.orm import Mapped, mapped_column

from mooring.store.base import Json, UtcTime, service_base

Base = service_base("volume")

_VOLUME = "volumes.id"
_TYPE = "volume_types.id"


class TypeRow(Base):
    """A volume type: what kind of volumes a pool must be able to make."""

    __tablename__ = "volume_types"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    description: Mapped[str | None]
    is_public: Mapped[bool] = mapped_column(default=True)
    extra_specs: Mapped[dict[str, str]] = mapped_column(Json, default=dict)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime | None] = mapped_column(UtcTime)


class TypeAccessRow(Base):
    """A project that may use a volume type which is not public."""

    __tablename__ = "volume_type_access"

    volume_type_id: Mapped[str] = mapped_column(
        ForeignKey(_TYPE, ondelete="CASCADE"), primary_key=True
    )
    project_id: Mapped[str] = mapped_column(primary_key=True)


class VolumeRow(Base):
    """One volume. It goes with its row: nothing deleted is kept.

    status, attach_status and migration_status have the words of facts/block_storage.md 1.1.
    `readonly`, `attached_mode` and `extend_new_size` are upstream's visible admin metadata. The
    `borrowed` columns say on whose behalf a client of the API holds the volume in a transitional
    status; they are empty while a saga does, and in every status of rest. The `extend` columns are
    empty unless compute makes the volume grow (facts/block_storage.md 3.4).
    """

    __tablename__ = "volumes"
    __table_args__ = (
        CheckConstraint("size_gib > 0", name="volume_has_a_size"),
        Index("volumes_of_project", "project_id", "created_at", "id"),
        # These two are all that quotas and pools are summed up from: they have the sizes.
        Index("volumes_of_backend", "backend", "size_gib"),
        Index("volumes_used", "project_id", "volume_type_id", "size_gib"),
        Index("volumes_borrowed", "borrowed_at"),
        Index("volumes_moving", "moves_to", "size_gib"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str]
    """Empty for the copy of a volume in use, which is no project's while it is one."""
    user_id: Mapped[str]
    name: Mapped[str | None]
    description: Mapped[str | None]
    size_gib: Mapped[int]
    status: Mapped[str]
    attach_status: Mapped[str] = mapped_column(default="detached")
    migration_status: Mapped[str | None]
    bootable: Mapped[bool] = mapped_column(default=False)
    multiattach: Mapped[bool] = mapped_column(default=False)
    readonly: Mapped[bool | None]
    attached_mode: Mapped[str | None]
    volume_type_id: Mapped[str] = mapped_column(ForeignKey(_TYPE))
    zone: Mapped[str]
    """The availability zone."""
    backend: Mapped[str | None]
    """`host@driver#pool`; None before one was chosen."""
    copy_id: Mapped[str | None]
    """Under what id its copy is made in another pool, until that has the volume's own id."""
    moves_from: Mapped[str | None]
    """The pool that it is migrated from, as long as there is a copy."""
    moves_to: Mapped[str | None]
    """The pool that the copy is in, in whose room it counts; once that is `backend`, the copy is
    the volume."""
    labels: Mapped[dict[str, str]] = mapped_column("metadata", Json, default=dict)
    """What the API calls metadata."""
    snapshot_id: Mapped[str | None]
    """The snapshot that it was made from, which may be gone by now."""
    source_volume_id: Mapped[str | None]
    """The volume that it was made from, likewise."""
    image_metadata: Mapped[dict[str, str]] = mapped_column(Json, default=dict)
    borrowed_by: Mapped[str] = mapped_column(default="")
    """The user who asked for the transitional status; empty when nobody did."""
    borrowed_for: Mapped[str] = mapped_column(default="")
    """The operation that came with the request, if any."""
    borrowed_at: Mapped[datetime | None] = mapped_column(UtcTime)
    extend_new_size: Mapped[int | None]
    """The size that compute is to reach, in GiB; there as long as its completion is awaited."""
    extend_reservations: Mapped[list[str] | None] = mapped_column(Json)
    """Ids of the reservations that the completion settles."""
    extend_answer: Mapped[str | None]
    """What compute completed with, done or failed, until the extending saga has read it."""
    extend_event: Mapped[str | None]
    """The operation under which compute was told to make it grow, until it must not any more; of
    the copy of a volume in use, the one under which compute was asked to swap the volume for it."""
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime | None] = mapped_column(UtcTime)
    launched_at: Mapped[datetime | None] = mapped_column(UtcTime)
    """When its storage was ready; None while it never was."""


class SnapshotRow(Base):
    """One snapshot of a volume.

    `size_gib`, `bootable` and `image_metadata` are the volume's when it was taken.
    `saga_id` names the saga that is at work on it. `told` is what compute last said of its part by
    `os-update_snapshot_status`: a status, empty before, `closed` once nobody listens any more.
    `borrowed_by` is who set a transitional status by hand. `leaves_since` is since when one is to
    go that was taken for a backup or an image alone: it is deleted until it is gone.
    """

    __tablename__ = "snapshots"
    __table_args__ = (
        Index("snapshots_of_volume", "volume_id", "created_at", "id"),
        Index("snapshots_of_project", "project_id", "created_at", "id"),
        Index("snapshots_borrowed", "borrowed_at"),
        Index("snapshots_leaving", "leaves_since"),
        Index("snapshots_used", "project_id", "volume_id", "size_gib"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    volume_id: Mapped[str] = mapped_column(ForeignKey(_VOLUME, ondelete="CASCADE"))
    project_id: Mapped[str]
    user_id: Mapped[str]
    name: Mapped[str | None]
    description: Mapped[str | None]
    size_gib: Mapped[int]
    status: Mapped[str]
    progress: Mapped[int] = mapped_column(default=0)
    """0 to 100, in percent."""
    bootable: Mapped[bool] = mapped_column(default=False, server_default=false())
    image_metadata: Mapped[dict[str, str]] = mapped_column(Json, default=dict, server_default="{}")
    labels: Mapped[dict[str, str]] = mapped_column("metadata", Json, default=dict)
    """What the API calls metadata."""
    saga_id: Mapped[str] = mapped_column(default="")
    told: Mapped[str] = mapped_column(default="")
    borrowed_by: Mapped[str] = mapped_column(default="")
    borrowed_at: Mapped[datetime | None] = mapped_column(UtcTime)
    leaves_since: Mapped[datetime | None] = mapped_column(UtcTime)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime | None] = mapped_column(UtcTime)


class TransferRow(Base):
    """A volume that is offered to whoever has the key, of which only a salted digest is kept.

    `project_id` is the one that offers it. Who accepts it, or who ends the offer, deletes the row.
    """

    __tablename__ = "transfers"
    __table_args__ = (Index("transfers_of_project", "project_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    volume_id: Mapped[str] = mapped_column(ForeignKey(_VOLUME, ondelete="CASCADE"), unique=True)
    project_id: Mapped[str]
    name: Mapped[str | None]
    no_snapshots: Mapped[bool] = mapped_column(default=False)
    salt: Mapped[str]
    digest: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class BackupRow(Base):
    """One backup of a volume, which it outlives: nothing in here refers to another row.

    `size_gib`, `bootable`, `image_metadata` and `volume_labels` are the volume's when it was made,
    `data_at` is when its data were so. `saga_id` names the saga that is at work on it.
    `borrowed_by` is who set a transitional status by hand. Several may have the same data, as
    records of one backup that were imported under several ids.
    """

    __tablename__ = "backups"
    __table_args__ = (
        Index("backups_of_project", "project_id", "created_at", "id"),
        Index("backups_used", "project_id", "size_gib"),
        Index("backups_of_parent", "parent_id"),
        Index("backups_stored", "stored_as"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str]
    user_id: Mapped[str]
    name: Mapped[str | None]
    description: Mapped[str | None]
    volume_id: Mapped[str]
    snapshot_id: Mapped[str | None]
    parent_id: Mapped[str | None]
    """The backup that this one builds on, which stays as long as this one; None: it is full."""
    stored_as: Mapped[str | None]
    """Under what id its data lie in the store; None: its own, and empty: it has none there."""
    size_gib: Mapped[int]
    status: Mapped[str]
    zone: Mapped[str]
    container: Mapped[str | None]
    """What who made it calls the place of its data: a word that is shown, and no more."""
    fail_reason: Mapped[str | None]
    object_count: Mapped[int] = mapped_column(default=0)
    """How many pieces of it are stored: those of zeros alone are not."""
    labels: Mapped[dict[str, str]] = mapped_column("metadata", Json, default=dict)
    """What the API calls metadata."""
    bootable: Mapped[bool] = mapped_column(default=False)
    image_metadata: Mapped[dict[str, str]] = mapped_column(Json, default=dict)
    volume_labels: Mapped[dict[str, str] | None] = mapped_column(Json)
    """The volume's metadata; None of a backup that an earlier release made."""
    saga_id: Mapped[str] = mapped_column(default="")
    borrowed_by: Mapped[str] = mapped_column(default="")
    data_at: Mapped[datetime] = mapped_column(UtcTime)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime | None] = mapped_column(UtcTime)


class AttachmentRow(Base):
    """One attachment: a volume promised to a server, and, once connected, exported to a host.

    `attach_status` is shown as status. `connection` is sealed and there exactly while the volume
    is known to be exported for this attachment. `saga_id` names the saga that connects or, when
    `deleting`, ends it right now. `digest` tells the connector it was last connected with: while it
    is there, an export may be, too.
    """

    __tablename__ = "attachments"
    __table_args__ = (
        Index("attachments_of_volume", "volume_id", "created_at", "id"),
        Index("attachments_of_project", "project_id", "created_at", "id"),
        Index("attachments_of_server", "server_id"),
        Index("attachments_borrowed", "borrowed_at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    volume_id: Mapped[str] = mapped_column(ForeignKey(_VOLUME, ondelete="CASCADE"))
    project_id: Mapped[str]
    server_id: Mapped[str | None]
    user_id: Mapped[str] = mapped_column(default="", server_default="")
    """Who reserved it, and may see its connection; empty for those of before that was kept."""
    by_service: Mapped[bool | None]
    """Whether a service made it for its user; None for those of before that was kept."""
    attach_status: Mapped[str]
    attach_mode: Mapped[str | None]
    connector: Mapped[dict[str, Any] | None] = mapped_column(Json)
    connection: Mapped[bytes | None]
    attached_host: Mapped[str | None]
    mountpoint: Mapped[str | None]
    saga_id: Mapped[str] = mapped_column(default="")
    deleting: Mapped[bool] = mapped_column(default=False)
    digest: Mapped[str] = mapped_column(default="")
    borrowed_by: Mapped[str] = mapped_column(default="")
    borrowed_for: Mapped[str] = mapped_column(default="")
    borrowed_at: Mapped[datetime | None] = mapped_column(UtcTime)
    attached_at: Mapped[datetime | None] = mapped_column(UtcTime)
    detached_at: Mapped[datetime | None] = mapped_column(UtcTime)
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class ExportRow(Base):
    """An export made by the legacy `os-initialize_connection`, which knows no attachment."""

    __tablename__ = "exports"

    id: Mapped[str] = mapped_column(primary_key=True)
    """Made from the volume's id and the host, so that asking twice gives one export."""
    volume_id: Mapped[str] = mapped_column(ForeignKey(_VOLUME, ondelete="CASCADE"))
    host: Mapped[str]
    connector: Mapped[dict[str, Any]] = mapped_column(Json)
    connection: Mapped[bytes | None]
    """Sealed, as in an attachment."""
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class BackendRow(Base):
    """A pool of storage on some host, as its agent last reported it. Capacities in GiB."""

    __tablename__ = "backends"

    name: Mapped[str] = mapped_column(primary_key=True)
    """`host@driver#pool`, OpenStack's name for it."""
    host: Mapped[str]
    driver: Mapped[str]
    pool: Mapped[str]
    zone: Mapped[str]
    service_id: Mapped[str]
    """The uuid that volumes show as `service_uuid`."""
    total_gib: Mapped[float]
    free_gib: Mapped[float]
    """What may still be written, the pool's own reserve left out."""
    protocol: Mapped[str]
    thin: Mapped[bool]
    multiattach: Mapped[bool]
    hosts: Mapped[list[str] | None] = mapped_column(Json)
    """The hosts that may have its volumes; None is every host."""
    problem: Mapped[str] = mapped_column(default="")
    """Why the pool cannot be used now; empty when it can."""
    identity: Mapped[str] = mapped_column(default="", server_default="")
    """What its storage calls itself, whichever host tells of it; empty when that is not known."""
    disabled: Mapped[bool] = mapped_column(default=False)
    disabled_reason: Mapped[str | None]
    seen_at: Mapped[datetime] = mapped_column(UtcTime)
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class QuotaProjectRow(Base):
    """One row per project: whoever counts a project's usage holds it until the count was used.

    So does who counts volume types, which are no project's.
    """

    __tablename__ = "quota_projects"

    project_id: Mapped[str] = mapped_column(primary_key=True)
    takings: Mapped[int] = mapped_column(default=0)


class QuotaRow(Base):
    """A limit that an administrator set for one project; -1 is no limit."""

    __tablename__ = "quotas"

    project_id: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    hard_limit: Mapped[int]


class ReservationRow(Base):
    """Gigabytes of a project that an operation may take soon: they count as used until it ends.

    Owned by the saga that wrote it. `delta_gib` counts for the project and for the volume's type.
    """

    __tablename__ = "reservations"
    __table_args__ = (
        CheckConstraint("delta_gib > 0", name="reservation_adds"),
        Index("reservations_of_project", "project_id"),
        Index("reservations_of_volume", "volume_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str]
    volume_id: Mapped[str] = mapped_column(ForeignKey(_VOLUME, ondelete="CASCADE"))
    volume_type_id: Mapped[str] = mapped_column(ForeignKey(_TYPE))
    delta_gib: Mapped[int]
    saga_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class QuotaClassRow(Base):
    """A limit of a quota class; the class `default` holds for every project without its own."""

    __tablename__ = "quota_classes"

    class_name: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    hard_limit: Mapped[int]


class MessageRow(Base):
    """What a user is told about an operation that failed after it was accepted."""

    __tablename__ = "messages"
    __table_args__ = (Index("messages_of_project", "project_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str]
    event_id: Mapped[str]
    text: Mapped[str]
    level: Mapped[str]
    request_id: Mapped[str]
    resource_type: Mapped[str]
    resource_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    expires_at: Mapped[datetime] = mapped_column(UtcTime)
