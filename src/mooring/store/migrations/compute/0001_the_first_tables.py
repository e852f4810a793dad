"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "faults",
        sa.Column("id", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("server_id", sa.String(), nullable=False),
        sa.Column("code", types.INTEGER, nullable=False),
        sa.Column("message", sa.String(), nullable=False),
        sa.Column("details", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_faults")),
    )
    op.create_index("faults_of_server", "faults", ["server_id", "id"], unique=False)
    op.create_table(
        "flavors",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("vcpus", types.INTEGER, nullable=False),
        sa.Column("memory_mib", types.INTEGER, nullable=False),
        sa.Column("disk_gib", types.INTEGER, nullable=False),
        sa.Column("ephemeral_gib", types.INTEGER, nullable=False),
        sa.Column("swap_mib", types.INTEGER, nullable=False),
        sa.Column("rxtx_factor", sa.Double(), nullable=False),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("extra_specs", types.Json(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_flavors")),
        sa.UniqueConstraint("name", name=op.f("uq_flavors_name")),
    )
    op.create_table(
        "hosts",
        sa.Column("id", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("service_uuid", sa.String(), nullable=False),
        sa.Column("provider_id", sa.String(), nullable=False),
        sa.Column("version", types.INTEGER, nullable=False),
        sa.Column("incarnation", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.String(), nullable=True),
        sa.Column("forced_down", sa.Boolean(), nullable=False),
        sa.Column("hypervisor", sa.String(), nullable=False),
        sa.Column("accelerator", sa.String(), nullable=False),
        sa.Column("vcpus", types.INTEGER, nullable=False),
        sa.Column("memory_mib", types.INTEGER, nullable=False),
        sa.Column("disk_gib", types.INTEGER, nullable=False),
        sa.Column("traits", types.Json(), nullable=False),
        sa.Column("announced", sa.String(), nullable=False),
        sa.Column("last_seen_at", types.UtcTime(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hosts")),
        sa.UniqueConstraint("name", name=op.f("uq_hosts_name")),
        sa.UniqueConstraint("provider_id", name=op.f("uq_hosts_provider_id")),
        sa.UniqueConstraint("service_uuid", name=op.f("uq_hosts_service_uuid")),
    )
    op.create_table(
        "instance_actions",
        sa.Column("id", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("server_id", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("saga_id", sa.String(), nullable=True),
        sa.Column("message", sa.String(), nullable=True),
        sa.Column("started_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance_actions")),
    )
    op.create_index(
        "instance_actions_of_server", "instance_actions", ["server_id", "id"], unique=False
    )
    op.create_table(
        "keypairs",
        sa.Column("id", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("public_key", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_keypairs")),
        sa.UniqueConstraint("user_id", "name", name="one_keypair_of_each_name"),
    )
    op.create_table(
        "quota_defaults",
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("maximum", types.INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("resource", name=op.f("pk_quota_defaults")),
    )
    op.create_table(
        "quota_limits",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("maximum", types.INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "resource", name=op.f("pk_quota_limits")),
    )
    op.create_table(
        "quota_locks",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("takings", types.INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_quota_locks")),
    )
    op.create_table(
        "servers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("hostname", sa.String(), nullable=False),
        sa.Column("vm_state", sa.String(), nullable=False),
        sa.Column("task_state", sa.String(), nullable=True),
        sa.Column("power_state", types.INTEGER, nullable=False),
        sa.Column("state_before_error", sa.String(), nullable=True),
        sa.Column("host", sa.String(), nullable=True),
        sa.Column("zone", sa.String(), nullable=True),
        sa.Column("pinned_zone", sa.String(), nullable=True),
        sa.Column("image_id", sa.String(), nullable=False),
        sa.Column("image_properties", types.Json(), nullable=False),
        sa.Column("flavor_id", sa.String(), nullable=False),
        sa.Column("flavor_name", sa.String(), nullable=False),
        sa.Column("vcpus", types.INTEGER, nullable=False),
        sa.Column("memory_mib", types.INTEGER, nullable=False),
        sa.Column("disk_gib", types.INTEGER, nullable=False),
        sa.Column("ephemeral_gib", types.INTEGER, nullable=False),
        sa.Column("swap_mib", types.INTEGER, nullable=False),
        sa.Column("extra_specs", types.Json(), nullable=False),
        sa.Column("network", sa.String(), nullable=False),
        sa.Column("key_name", sa.String(), nullable=True),
        sa.Column("public_key", sa.String(), nullable=True),
        sa.Column("user_data", sa.String(), nullable=True),
        sa.Column("config_drive", sa.Boolean(), nullable=False),
        sa.Column("disk_config", sa.String(), nullable=False),
        sa.Column("access_ip_v4", sa.String(), nullable=False),
        sa.Column("access_ip_v6", sa.String(), nullable=False),
        sa.Column("locked_by", sa.String(), nullable=True),
        sa.Column("locked_reason", sa.String(), nullable=True),
        sa.Column("root_device_name", sa.String(), nullable=False),
        sa.Column("reservation_id", sa.String(), nullable=False),
        sa.Column("launch_index", types.INTEGER, nullable=False),
        sa.Column("scheduler_hints", types.Json(), nullable=False),
        sa.Column("trusted_certificates", types.Json(), nullable=True),
        sa.Column("launched_at", types.UtcTime(), nullable=True),
        sa.Column("terminated_at", types.UtcTime(), nullable=True),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.Column("deleted_at", types.UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_servers")),
    )
    op.create_index(
        "servers_of_project", "servers", ["project_id", "created_at", "id"], unique=False
    )
    op.create_index("servers_on_host", "servers", ["host"], unique=False)
    op.create_table(
        "block_devices",
        sa.Column("position", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("server_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("source_type", sa.String(), nullable=False),
        sa.Column("destination_type", sa.String(), nullable=False),
        sa.Column("boot_index", types.INTEGER, nullable=True),
        sa.Column("device_name", sa.String(), nullable=True),
        sa.Column("source_id", sa.String(), nullable=True),
        sa.Column("volume_id", sa.String(), nullable=True),
        sa.Column("volume_size_gib", types.INTEGER, nullable=True),
        sa.Column("volume_type", sa.String(), nullable=True),
        sa.Column("attachment_id", sa.String(), nullable=True),
        sa.Column("multiattach", sa.Boolean(), nullable=False),
        sa.Column("delete_on_termination", sa.Boolean(), nullable=False),
        sa.Column("tag", sa.String(), nullable=True),
        sa.Column("guest_format", sa.String(), nullable=True),
        sa.Column("device_type", sa.String(), nullable=True),
        sa.Column("disk_bus", sa.String(), nullable=True),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.CheckConstraint(
            "destination_type IN ('local', 'volume')",
            name=op.f("ck_block_devices_known_destination"),
        ),
        sa.CheckConstraint(
            "state IN ('reserving', 'attached', 'released')",
            name=op.f("ck_block_devices_known_state"),
        ),
        sa.ForeignKeyConstraint(
            ["server_id"], ["servers.id"], name=op.f("fk_block_devices_server_id")
        ),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_block_devices")),
        sa.UniqueConstraint("id", name=op.f("uq_block_devices_id")),
        sa.UniqueConstraint("server_id", "device_name", name="one_device_for_each_name"),
        sa.UniqueConstraint("server_id", "volume_id", name="one_device_for_each_volume"),
    )
    op.create_index("block_devices_of_volume", "block_devices", ["volume_id"], unique=False)
    op.create_table(
        "flavor_access",
        sa.Column("flavor_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["flavor_id"],
            ["flavors.id"],
            name=op.f("fk_flavor_access_flavor_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("flavor_id", "project_id", name=op.f("pk_flavor_access")),
    )
    op.create_table(
        "instance_action_events",
        sa.Column("id", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("action_id", types.INTEGER, nullable=False),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=True),
        sa.Column("result", sa.String(), nullable=True),
        sa.Column("details", sa.String(), nullable=True),
        sa.Column("traceback", sa.String(), nullable=True),
        sa.Column("started_at", types.UtcTime(), nullable=False),
        sa.Column("finished_at", types.UtcTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["action_id"],
            ["instance_actions.id"],
            name=op.f("fk_instance_action_events_action_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance_action_events")),
        sa.UniqueConstraint("action_id", "event", name="one_event_of_each_name"),
    )
    op.create_table(
        "server_metadata",
        sa.Column("server_id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["server_id"],
            ["servers.id"],
            name=op.f("fk_server_metadata_server_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("server_id", "key", name=op.f("pk_server_metadata")),
    )
    op.create_table(
        "server_tags",
        sa.Column("server_id", sa.String(), nullable=False),
        sa.Column("tag", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["server_id"], ["servers.id"], name=op.f("fk_server_tags_server_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("server_id", "tag", name=op.f("pk_server_tags")),
    )
