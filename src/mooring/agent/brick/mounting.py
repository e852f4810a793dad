"""The mounting helper: os-brick mounts, and what nobody uses any more is unmounted.

Run with the directory for os-brick's lock files. os-brick's own disconnect leaves a mount where it
is (facts/block_storage.md 10.3), so unmounting is ours. privsep runs in this process, because the
agent that mounts is root, or has a mount command that needs no root.
"""

# os-brick has types for some of its parameters only.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

from mooring.agent.brick.requests import MountRequest, UnmountRequest
from mooring.agent.worker import decode_arguments
from mooring.agent.worker_side import serve
from mooring.errors import Unavailable

with warnings.catch_warnings():
    # eventlet, which oslo.service still pulls in, warns of its own end whenever it is imported.
    warnings.simplefilter("ignore")
    from os_brick import exception, privileged
    from os_brick.privileged import rootwrap
    from os_brick.remotefs import remotefs
    from oslo_concurrency import lockutils, processutils


class _QuobyteClient(remotefs.RemoteFsClient):
    """Mounts Quobyte as its own client wants it: without extended attributes, by its own program.

    `mount -t quobyte` takes no file of client settings.
    """

    def __init__(self, base: str, client_config: str) -> None:
        super().__init__("quobyte", "", quobyte_mount_point_base=base)
        self._client_config = client_config

    def _do_mount(
        self,
        mount_type: str,
        share: str,
        mount_path: str,
        mount_options: str | None = None,
        flags: list[str] | None = None,
    ) -> None:
        command = ["mount.quobyte", "--disable-xattrs", *(flags or []), share, mount_path]
        if self._client_config:
            command += ["-c", self._client_config]
        self._execute(*command, root_helper=self._root_helper, run_as_root=True, check_exit_code=0)


def mount(arguments: Any) -> str:
    """Mount an export unless it is mounted; returns the mount point. Raises Unavailable."""
    request: MountRequest = decode_arguments(MountRequest, arguments)
    client = _client(request)
    for attempt in range(1, request.attempts + 1):
        try:
            client.mount(request.export, list(request.flags) or None)
        except (exception.BrickException, processutils.ProcessExecutionError, OSError) as error:
            if attempt >= request.attempts:
                raise _refused(error) from error
            # A server that has just started refuses for a moment.
            time.sleep(1)
        else:
            break
    return str(client.get_mount_point(request.export))


def unmount(arguments: Any) -> None:
    """Unmount a mount point. Raises Unavailable while something on this host uses it."""
    request: UnmountRequest = decode_arguments(UnmountRequest, arguments)
    try:
        rootwrap.execute("umount", request.path, run_as_root=True)
    except (processutils.ProcessExecutionError, OSError) as error:
        raise Unavailable(
            "A share could not be unmounted; something on this host still uses it.",
            private=str(error),
        ) from error


def _refused(error: Exception) -> Unavailable:
    """Return what to tell of a mount that failed."""
    if "superuser" in str(error) or "only root" in str(error):
        advice = "Mounting takes root, and this agent is not: run it as root."
    else:
        advice = "See whether its server answers and lets this host in."
    return Unavailable(
        f"A share could not be mounted on this host. {advice} The agent's log has what mount said.",
        private=str(error),
    )


def _client(request: MountRequest) -> remotefs.RemoteFsClient:
    if request.kind == "quobyte":
        return _QuobyteClient(request.base, request.client_config)
    return remotefs.RemoteFsClient(
        "nfs",
        "",
        nfs_mount_point_base=request.base,
        nfs_mount_options=request.options or None,
    )


if __name__ == "__main__":
    privileged.default.set_client_mode(enabled=False)
    lockutils.set_defaults(sys.argv[1])
    serve({"mount": mount, "unmount": unmount})
