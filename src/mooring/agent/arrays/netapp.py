"""The helper for ONTAP: capacity of the volume behind a share, and clones of files on it.

Source: the REST API's `/api/storage/volumes` and `/api/storage/file/clone`, by NetApp's library.
"""

# The library has no types for the fields of its resources.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from netapp_ontap.error import NetAppRestError
from netapp_ontap.host_connection import HostConnection
from netapp_ontap.resources.file_clone import FileClone
from netapp_ontap.resources.volume import Volume
from requests.exceptions import RequestException

from mooring.agent.arrays.requests import NetappAccess, NetappClone, lacks_something
from mooring.agent.worker import decode_arguments
from mooring.agent.worker_side import serve
from mooring.errors import NoCapacity, Unavailable


def show_space(arguments: Any) -> list[int]:
    """Return size and available bytes of the share's volume. Raises Unavailable."""
    access: NetappAccess = decode_arguments(NetappAccess, arguments)
    try:
        with _connect(access):
            volume, _ = _find_volume(access)
    except (NetAppRestError, RequestException) as error:
        raise _refused("tell its capacity", error) from error
    try:
        return [int(volume.space.size), int(volume.space.available)]
    except (AttributeError, TypeError, ValueError) as error:
        raise lacks_something(volume) from error


def clone(arguments: Any) -> None:
    """Clone a file and wait for it. Raises NoCapacity, Unavailable."""
    request: NetappClone = decode_arguments(NetappClone, arguments)
    access = request.access
    try:
        with _connect(access):
            volume, below = _find_volume(access)
            made: Any = FileClone()
            made.volume = {"uuid": volume.uuid, "name": volume.name}
            made.source_path = str(below / request.source)
            made.destination_path = str(below / request.target)
            made.post(poll=True, poll_interval=1, poll_timeout=access.timeout_s)
    except (NetAppRestError, RequestException) as error:
        if "No space left" in str(error):
            raise NoCapacity(
                "The array has no room for another volume. Delete volumes or add storage.",
                private=str(error),
            ) from error
        raise _refused("clone a file", error) from error


def _connect(access: NetappAccess) -> HostConnection:
    verify: Any = access.certificates or True
    return HostConnection(
        access.host,
        username=access.login,
        password=access.password,
        port=access.port,
        scheme=access.scheme,
        verify=verify,
    )


def _find_volume(access: NetappAccess) -> tuple[Any, PurePosixPath]:
    """Return the volume whose junction is nearest above the share, and the share's path in it."""
    path = PurePosixPath(access.path)
    junctions = [str(one) for one in (path, *path.parents) if one != one.parent]
    query: dict[str, Any] = {"nas.path": "|".join(junctions), "svm.name": access.vserver}
    fields = "uuid,name,nas.path,space.size,space.available"
    answer: Any = Volume.get_collection(fields=fields, **query)
    found: list[Any] = list(answer)
    if not found:
        raise Unavailable(
            f"The array has no volume at {access.path} of {access.vserver}. See to "
            "nas_share_path and netapp_vserver."
        )
    try:
        nearest = max(found, key=_depth)
        return nearest, path.relative_to(nearest.nas.path)
    except (AttributeError, TypeError, ValueError) as error:
        raise lacks_something(found) from error


def _depth(volume: Any) -> int:
    return len(PurePosixPath(volume.nas.path).parts)


def _refused(what: str, error: Exception) -> Unavailable:
    status = getattr(error, "status_code", None)
    if status in {401, 403}:
        return Unavailable(
            "The array did not take the login that the pool has for it. See to netapp_login and "
            "netapp_password.",
            private=str(error),
        )
    return Unavailable(
        f"The array did not {what}. The agent's log has its answer.", private=str(error)
    )


if __name__ == "__main__":
    serve({"show_space": show_space, "clone": clone})
