"""The helper for PowerStore: capacity of the file system behind an NFS export.

Source: the REST API's `/api/rest/nfs_export` and `/api/rest/file_system`, by Dell's library. It
clones whole file systems and no single files: those the vendor's tool clones.
"""

# The library has no types for what it answers.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

from PyPowerStore.powerstore_conn import PowerStoreConn
from PyPowerStore.utils.exception import PowerStoreException

from mooring.agent.arrays.requests import PowerstoreAccess, lacks_something
from mooring.agent.worker import decode_arguments
from mooring.agent.worker_side import serve
from mooring.errors import Unavailable


def show_space(arguments: Any) -> list[int]:
    """Return size and free bytes of the export's file system. Raises Unavailable."""
    access: PowerstoreAccess = decode_arguments(PowerstoreAccess, arguments)
    verify: Any = (access.certificates or True) if access.verify else False
    connection = PowerStoreConn(
        access.login,
        access.password,
        access.host,
        verify=verify,
        application_type="Mooring",
        timeout=access.timeout_s,
        port_no=access.port,
    )
    try:
        provisioning: Any = connection.provisioning
        exports: Any = provisioning.get_nfs_export_details_by_name(access.export)
        if len(exports or []) != 1:
            raise Unavailable(
                f"The array has no NFS export {access.export}, or several. See to nas_share_path."
            )
        found: Any = provisioning.get_filesystem_details(_file_system_of(exports[0]))
    except (PowerStoreException, OSError) as error:
        raise _refused(error) from error
    try:
        total, used = int(found["size_total"]), int(found["size_used"])
    except (KeyError, TypeError, ValueError) as error:
        raise lacks_something(found) from error
    return [total, max(0, total - used)]


def _file_system_of(export: Any) -> Any:
    try:
        return export["file_system"]["id"]
    except (KeyError, TypeError) as error:
        raise lacks_something(export) from error


def _refused(error: Exception) -> Unavailable:
    if getattr(error, "status_code", None) in {"401", "403"}:
        return Unavailable(
            "The array did not take the login that the pool has for it. See to san_login and "
            "san_password.",
            private=str(error),
        )
    return Unavailable(
        "The array did not tell its capacity. The agent's log has its answer.", private=str(error)
    )


if __name__ == "__main__":
    serve({"show_space": show_space})
