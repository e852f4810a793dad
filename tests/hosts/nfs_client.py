"""A client of NFS 4 in user space, for a kernel that has none: `nfs_client SERVER:PATH DIRECTORY`.

It mounts by FUSE and speaks NFS by libnfs, which the tools of its package use too. It keeps nothing
between two calls, no connection and no open file: so a server that lets its host in no more refuses
the next call, and no lease runs out meanwhile. Only what the guests of the tests do is there.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

_nfs: Any = ctypes.CDLL("libnfs.so.13")
_nfs.nfs_init_context.restype = c_void_p
_nfs.nfs_get_error.restype = c_char_p
_nfs.nfs_readdir.restype = c_void_p


_TOLD = (
    *("dev", "ino", "mode", "nlink", "uid", "gid", "rdev", "size", "blksize", "blocks"),
    *("atime", "mtime", "ctime", "atime_ns", "mtime_ns", "ctime_ns"),
)


class _NfsStat(Structure):
    """`struct nfs_stat_64` of libnfs."""

    _fields_ = [(name, c_uint64) for name in (*_TOLD, "used")]


class _Entry(Structure):
    _fields_ = [("next", c_void_p), ("name", c_char_p)]


class _Stat(Structure):
    """`struct stat` of Linux on x86-64."""

    _fields_ = [
        *((name, c_uint64) for name in ("dev", "ino", "nlink")),
        *((name, c_uint32) for name in ("mode", "uid", "gid", "pad")),
        ("rdev", c_uint64),
        *((name, c_int64) for name in ("size", "blksize", "blocks")),
        *((name, c_int64) for name in ("atime", "atime_ns", "mtime", "mtime_ns")),
        *((name, c_int64) for name in ("ctime", "ctime_ns", "left_1", "left_2", "left_3")),
    ]


_NAMES = (
    *("getattr", "readlink", "getdir", "mknod", "mkdir", "unlink", "rmdir", "symlink", "rename"),
    *("link", "chmod", "chown", "truncate", "utime", "open", "read", "write", "statfs", "flush"),
    *("release", "fsync", "setxattr", "getxattr", "listxattr", "removexattr", "opendir"),
    *("readdir", "releasedir", "fsyncdir", "init", "destroy", "access", "create"),
)
"""The beginning of `struct fuse_operations` of libfuse 2.6 and later, which it takes alone."""


class _Operations(Structure):
    _fields_ = [(name, c_void_p) for name in _NAMES]


class Client:
    """One export of one server, asked anew each time."""

    def __init__(self, server: str, export: str) -> None:
        self._server, self._export = server.encode(), export.encode()

    @contextmanager
    def mounted(self) -> Generator[c_void_p]:
        """A mount for one call. Raises OSError with what the server says against it."""
        context = c_void_p(_nfs.nfs_init_context())
        try:
            _nfs.nfs_set_version(context, 4)
            self._check(context, _nfs.nfs_mount(context, self._server, self._export))
            yield context
        finally:
            _nfs.nfs_destroy_context(context)

    @contextmanager
    def _opened(self, path: bytes, flags: int) -> Generator[tuple[c_void_p, c_void_p]]:
        with self.mounted() as context:
            file = c_void_p()
            self._check(context, _nfs.nfs_open(context, path, flags, byref(file)))
            try:
                yield context, file
            finally:
                self._check(context, _nfs.nfs_close(context, file))

    def _check(self, context: c_void_p, code: int) -> int:
        if code < 0:
            raise OSError(-code, (_nfs.nfs_get_error(context) or b"").decode("utf-8", "replace"))
        return code

    # -- what FUSE asks for; each returns 0 or a number of bytes ------------------------------

    def getattr(self, path: bytes, found: Any) -> int:
        seen, out = _NfsStat(), found.contents
        with self.mounted() as context:
            self._check(context, _nfs.nfs_lstat64(context, path, byref(seen)))
        for name in _TOLD:
            setattr(out, name, getattr(seen, name))
        return 0

    def readdir(self, path: bytes, buffer: int, fill: Any, _offset: int, _info: int) -> int:
        with self.mounted() as context:
            directory = c_void_p()
            self._check(context, _nfs.nfs_opendir(context, path, byref(directory)))
            while entry := _nfs.nfs_readdir(context, directory):
                fill(buffer, _Entry.from_address(entry).name, None, 0)
            _nfs.nfs_closedir(context, directory)
        return 0

    def open(self, path: bytes, _info: int) -> int:
        return self.getattr(path, ctypes.pointer(_Stat()))

    def create(self, path: bytes, mode: int, _info: int) -> int:
        with self.mounted() as context:
            file = c_void_p()
            self._check(context, _nfs.nfs_creat(context, path, stat.S_IMODE(mode), byref(file)))
            return self._check(context, _nfs.nfs_close(context, file))

    def read(self, path: bytes, buffer: int, size: int, offset: int, _info: int) -> int:
        with self._opened(path, os.O_RDONLY) as (context, file):
            where = c_uint64(offset), c_uint64(size), c_void_p(buffer)
            return self._check(context, _nfs.nfs_pread(context, file, *where))

    def write(self, path: bytes, buffer: int, size: int, offset: int, _info: int) -> int:
        with self._opened(path, os.O_WRONLY) as (context, file):
            where = c_uint64(offset), c_uint64(size), c_void_p(buffer)
            return self._check(context, _nfs.nfs_pwrite(context, file, *where))

    def truncate(self, path: bytes, length: int) -> int:
        with self.mounted() as context:
            return self._check(context, _nfs.nfs_truncate(context, path, c_uint64(length)))

    def statfs(self, path: bytes, found: int) -> int:
        with self.mounted() as context:
            return self._check(context, _nfs.nfs_statvfs(context, path, c_void_p(found)))


_FILL = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_int64)
_BYTES = (c_char_p, c_void_p, c_size_t, c_int64, c_void_p)
_TAKES: dict[str, tuple[Any, ...]] = {
    "getattr": (c_char_p, POINTER(_Stat)),
    "readdir": (c_char_p, c_void_p, _FILL, c_int64, c_void_p),
    "open": (c_char_p, c_void_p),
    "create": (c_char_p, c_uint32, c_void_p),
    "read": _BYTES,
    "write": _BYTES,
    "truncate": (c_char_p, c_int64),
    "statfs": (c_char_p, c_void_p),
}


def _answering(ask: Callable[..., int]) -> Callable[..., int]:
    """Return what answers FUSE, which knows errors by numbers below zero."""

    def answer(*arguments: Any) -> int:
        try:
            return ask(*arguments)
        except OSError as error:
            return -(error.errno or errno.EIO)
        except Exception:  # noqa: BLE001  (an exception in a callback would be lost)
            return -errno.EIO

    return answer


def main(export: str, directory: str) -> int:
    """Mount, and go on in the background until somebody unmounts; 32 when it is refused."""
    server, _, path = export.partition(":")
    client = Client(server, path)
    try:
        with client.mounted():
            pass
    except OSError as error:
        said = "No such file or directory" if "NFS4ERR_NOENT" in str(error) else str(error)
        sys.stderr.write(f"mount.nfs: mounting {export} failed, reason given by server: {said}\n")
        return 32
    made = {
        name: CFUNCTYPE(c_int, *takes)(_answering(getattr(client, name)))
        for name, takes in _TAKES.items()
    }
    operations = _Operations(**{name: ctypes.cast(one, c_void_p) for name, one in made.items()})
    options = f"direct_io,attr_timeout=0,entry_timeout=0,nosuid,nodev,fsname={export}"
    words = [word.encode() for word in ("nfs_client", directory, "-s", "-o", options)]
    argv = (c_char_p * len(words))(*words)
    fuse: Any = ctypes.CDLL("libfuse.so.2")
    size = c_size_t(ctypes.sizeof(operations))
    return fuse.fuse_main_real(len(words), argv, byref(operations), size, None)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
