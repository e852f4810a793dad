"""What a pool on a remote file system is configured with, under the names of upstream's drivers.

Options that upstream's driver does not have are refused, and so are those of upstream that Mooring
has no use for. Source: facts/block_storage.md 11.4.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Secure = Literal["auto", "true", "false"]


class _RemoteOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all of them have."""

    nas_secure_file_operations: Secure = "auto"
    """`true` refuses a share that gives this agent the rights of root. `auto` is true on a share
    that was empty at first and gives none."""
    nas_secure_file_permissions: Secure = "auto"
    """`true`: files are for their owner and group (0660), else for everybody (0666). `auto` is
    true on a share that was empty at first."""


class NfsOptions(_RemoteOptions, frozen=True, kw_only=True):
    """A pool on NFS. Its share is `nas_host` and `nas_share_path`, or those of a file."""

    nas_host: str = ""
    nas_share_path: str = ""
    nas_mount_options: str = ""
    """Instead of `nfs_mount_options`."""
    nfs_shares_config: str = ""
    """A file with a share in each line, `host:/path -o options`; each becomes a pool of its own,
    named after the pool and the share. Lines that begin with # are left out."""
    nfs_mount_options: str = ""
    nfs_mount_point_base: str = ""
    """Absolute; empty for a directory in the agent's own."""
    nfs_mount_attempts: int = 3
    nfs_sparsed_volumes: bool = True
    """False takes the space of a raw volume when it is made."""
    nfs_qcow2_volumes: bool = False
    nfs_snapshot_support: bool = False


class NetappNfsOptions(NfsOptions, frozen=True, kw_only=True):
    """A pool on the NFS of an ONTAP cluster, with its REST API."""

    netapp_server_hostname: str
    netapp_server_port: int = 0
    """0 for 80 or 443, as `netapp_transport_type` says."""
    netapp_transport_type: Literal["http", "https"] = "http"
    netapp_ssl_cert_path: str = ""
    """Of whom to trust beside the well-known authorities."""
    netapp_login: str
    netapp_password: str
    netapp_vserver: str
    netapp_storage_family: Literal["ontap_cluster"] = "ontap_cluster"
    netapp_storage_protocol: Literal["nfs"] = "nfs"
    netapp_use_legacy_client: bool = False
    """The legacy client speaks ZAPI, which Mooring does not: true is refused."""
    netapp_async_rest_timeout: int = 60
    """Seconds that a job of the array may take."""
    thres_avl_size_perc_start: int = 20
    thres_avl_size_perc_stop: int = 60
    expiry_thres_minutes: int = 720
    """When less than `start` percent of a share are free, cached images that were not used for so
    long are removed until `stop` percent are."""


class PowerstoreNfsOptions(NfsOptions, frozen=True, kw_only=True):
    """A pool on the NFS of a PowerStore. With `san_ip`, capacity comes from its REST API."""

    san_ip: str = ""
    san_api_port: int = 443
    san_login: str = ""
    san_password: str = ""
    driver_ssl_cert_verify: bool = True
    driver_ssl_cert_path: str = ""
    dellfcopy: str = "dellfcopy"
    """The vendor's tool that clones a file on the array; ours is the only option that says where
    it lies, upstream looks on the PATH."""


class QuobyteOptions(_RemoteOptions, frozen=True, kw_only=True):
    """A pool on a Quobyte volume."""

    quobyte_volume_url: str
    """`quobyte://host,host/volume`."""
    quobyte_client_cfg: str = ""
    quobyte_mount_point_base: str = ""
    """Absolute; empty for a directory in the agent's own."""
    quobyte_sparsed_volumes: bool = True
    quobyte_qcow2_volumes: bool = True
