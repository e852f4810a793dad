"""What the rebuild of a server knows between two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


class RebuildServer(Struct, frozen=True, kw_only=True):
    """The notes of both rebuilds.

    vm_state     the state before, to which a rebuild that changed nothing comes back
    before       columns of the server as they were; its user data stays as the rebuild said it
    volumes      every volume of the server
    to_connect   block devices whose volume is, or will be, reserved by an empty attachment
    found        the state in which the guest was found; empty when there was none
    destroyed    the old guest, and what was its own on the host, is gone
    kept         in a bad end: what the server boots from is as it was

    Of a root volume that is to be reimaged:

    frees           the server holds it by an attachment that has to go first
    known           attachments that it had before, never to be deleted as this saga's own
    old_image_id    the image that it had, "" for none
    asked           the volume service has begun
    waited          the event was waited for although the volume was at rest
    wait_s          seconds after which its status is read when no event came
    """

    server_id: str
    host: str
    action_id: int
    image_id: str
    vm_state: str
    has_local_root: bool = False
    before: dict[str, Any] = {}
    metadata_before: dict[str, str] | None = None
    volumes: list[str] = []
    to_connect: list[str] = []
    found: str = ""
    destroyed: bool = False
    kept: bool = False

    volume_id: str = ""
    block_device_id: str = ""
    frees: bool = False
    old_attachment_id: str | None = None
    attachment_id: str = ""
    known: list[str] = []
    old_image_id: str = ""
    asked: bool = False
    waited: bool = False
    wait_s: float = 0.0

    @property
    def was_running(self) -> bool:
        """Whether the guest ran before."""
        return self.found in {"running", "paused"}


def to_connect(notes: RebuildServer) -> list[str]:
    """Return the block devices whose volumes have to be connected."""
    return notes.to_connect


def say_how(notes: RebuildServer, run: Run[Compute]) -> str:
    """Return how a server is that was not rebuilt, and what to do."""
    if not run.ends_badly or (notes.kept and run.undo_error is None):
        return "The server was not rebuilt, and is as it was."
    return (
        f"The server is in ERROR on host {notes.host}. Once what failed is mended, rebuild it "
        "again, or reboot it hard if only its guest did not start."
    )
