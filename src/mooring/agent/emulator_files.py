"""Files that QEMU may open where it runs as a user of its own.

libvirt would give each guest's files to that user, and take them back when the guest ends, or has
left for another host. Hosts that share a storage would so take files from each other's guests: it
knows no shared storage but NFS and the like. So libvirt is told to leave owners alone
(`dynamic_ownership = 0`), and the agent gives files before QEMU opens them, and never takes one
back. What several guests read, such as an image, stays the agent's: QEMU may read it, no more.

Source: qemu.conf (dynamic_ownership, remember_owner) and facts/real_hosts.md 3.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path

import structlog
from msgspec import Struct

from mooring.agent.overlays import Layer, read_layers
from mooring.agent.run import Runner, find_program
from mooring.agent.sources import FileSource, Source
from mooring.errors import Unavailable
from mooring.fence.threads import run_to_end

log = structlog.get_logger()
_READS = stat.S_IRGRP
_REFUSED = frozenset({errno.EPERM, errno.EACCES, errno.EROFS, errno.EINVAL})


class EmulatorUser(Struct, frozen=True):
    """The user whom QEMU runs as."""

    name: str
    uid: int
    gid: int

    def words(self, program: str) -> list[str]:
        """Return the words that run a program as this user; its own arguments come behind."""
        become = [f"--reuid={self.uid}", f"--regid={self.gid}", "--init-groups"]
        return ["setpriv", *become, "--", find_program(program)]


def find_user(name: str) -> EmulatorUser:
    """Return a user of this machine. Raises Unavailable, with how to add one."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise Unavailable(
            f"The system user {name} is missing, as whom guests are to run; add it with: useradd "
            f"--system --user-group --shell /usr/sbin/nologin {name}"
        ) from None
    return EmulatorUser(name, found.pw_uid, found.pw_gid)


class EmulatorFiles:
    """Gives files to QEMU's user; without one there is nothing to give."""

    def __init__(self, runner: Runner, user: EmulatorUser | None = None) -> None:
        self._runner, self.user = runner, user
        self._passable: set[Path] = set()

    async def admit(self, source: Source) -> None:
        """See that QEMU may open a volume. Raises Unavailable where it does not get there."""
        if self.user is not None and isinstance(source, FileSource):
            await self.check_passes(Path(source.path).parent)
            # Of a share whose server is away nothing but this call is to wait.
            await run_to_end(lambda: self.give_disk(source))

    def give_disk(self, source: Source) -> None:
        """Give all files of a volume: QEMU merges one into another. Blocking.

        Raises Invalid, and Unavailable for a link.
        """
        if self.user is not None and isinstance(source, FileSource):
            for layer in read_layers(Layer(Path(source.path), source.format)):
                self.give(layer.path)

    def give_top(self, source: FileSource) -> None:
        """Give a disk that may lie over an image of others, which is only read. Blocking."""
        if self.user is not None:
            top, *below = read_layers(Layer(Path(source.path), source.format))
            self.give(top.path)
            for layer in below:
                self.let_read(layer.path)

    def give(self, path: Path) -> None:
        """Let QEMU's user write to a file, and nobody else but root. Blocking. Raises Unavailable.

        Its group is root's, and has the same rights unless nobody but the owner had any: a guest
        that the release before started runs as root, with what rights libvirt left it of root's.
        """
        if self.user is not None:
            self._hand_over(path, self.user.uid, 0, lambda mode: mode | (mode & _READS) >> 1)

    def let_read(self, path: Path) -> None:
        """Let QEMU's user read a file that stays root's. Blocking. Raises Unavailable."""
        if self.user is not None:
            self._hand_over(path, 0, self.user.gid, lambda mode: mode | _READS)

    async def open_kvm(self, device: Path) -> None:
        """See that QEMU's user may open /dev/kvm where there is one. Raises Unavailable.

        libvirt looks with root's rights whether it works, and again each time as long as QEMU's
        user may not open it. What belongs to root alone, as it does without udev, is given to the
        user's group; udev gives it to everybody, or to the group kvm.
        """
        user = self.user
        if user is None or not await run_to_end(device.exists):
            return
        found = await run_to_end(device.stat)
        if (found.st_gid, stat.S_IMODE(found.st_mode)) == (0, 0o600):
            log.info("QEMU's user gets to KVM", user=user.name, device=str(device))
            await run_to_end(lambda: _let_group(device, user.gid))
        tried = await self._runner.run(
            [*user.words("test"), "-r", str(device), "-a", "-w", str(device)]
        )
        if tried.code:
            raise Unavailable(
                f"Guests run as the user {user.name}, who may not open {device}. Make it a member "
                f"of the device's group (usermod -aG kvm {user.name}), and start the agent again."
            )

    async def check_passes(self, directory: Path) -> None:
        """Raise Unavailable, with the directory, unless QEMU's user can pass to what lies there."""
        user = self.user
        if user is None or directory in self._passable or await self._passes(user, directory):
            self._passable.add(directory)
            return
        for each in (*reversed(directory.parents), directory):
            if not await self._passes(user, each):
                raise Unavailable(
                    f"Guests run as the user {user.name}, who cannot pass the directory {each}. "
                    f"Let it pass (chmod o+x {each}, or setfacl -m u:{user.name}:x {each} for it "
                    "alone), choose another directory than those below, or another user in the "
                    "setting emulator_user."
                )

    async def _passes(self, user: EmulatorUser, directory: Path) -> bool:
        tried = await self._runner.run([*user.words("test"), "-x", str(directory)])
        return tried.code == 0

    def _hand_over(self, path: Path, uid: int, gid: int, more: Callable[[int], int]) -> None:
        real = path.resolve() if path.is_relative_to("/dev") else path
        try:
            # Not through a link: who may write on a storage would choose what is given.
            handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            # Whoever is to open it is told by libvirt.
            return
        except PermissionError as error:
            _check_kind(path, real.lstat().st_mode)
            _log_kept(path, error)
            return
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise _no_disk(path) from error
            raise
        try:
            _change(handle, path, uid, gid, more)
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            _log_kept(path, error)
        finally:
            os.close(handle)


def _log_kept(path: Path, error: OSError) -> None:
    # A server of NFS that squashes root: its own rights decide whether QEMU may open it.
    log.info("a storage keeps the owner of a file", path=str(path), reason=str(error))


def _check_kind(path: Path, mode: int) -> None:
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise _no_disk(path)


def _no_disk(path: Path) -> Unavailable:
    return Unavailable(
        f"{path.name} is neither a file nor a disk, and no guest gets it. Put the file back in its "
        "place, and ask again."
    )


def _let_group(device: Path, gid: int) -> None:
    os.chown(device, -1, gid)
    device.chmod(0o660)


def _change(handle: int, path: Path, uid: int, gid: int, more: Callable[[int], int]) -> None:
    found = os.fstat(handle)
    _check_kind(path, found.st_mode)
    mode = stat.S_IMODE(found.st_mode)
    wanted = more(mode)
    if not mode & stat.S_IWOTH:
        # A pool whose files everybody may write to was asked for so (nas_secure_file_permissions).
        wanted &= ~stat.S_IRWXO
    if (found.st_uid, found.st_gid) != (uid, gid):
        os.fchown(handle, uid, gid)
    if wanted != mode:
        os.fchmod(handle, wanted)
