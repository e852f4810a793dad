"""Backups in a service that speaks S3: an object a piece, below the id of its backup.

`<prefix>/<id>/<digest>` is a piece, `<prefix>/<id>/manifest.json` the manifest, and
`<prefix>/<id>/begun` says that pieces may be put. A service of S3 has no folders to rename, so who
deletes a backup removes `begun` first, and who has put something looks whether it still stands; if
not, it takes back what it has put. A service shows what was put at once, and an object whole or not
at all: each is put in one request, and none in parts, which would have to be looked after.
"""

from __future__ import annotations

import io
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from xml.etree.ElementTree import ParseError

import msgspec
import structlog

from mooring.errors import Conflict, Invalid, MooringError, NoCapacity, Unavailable
from mooring.fence.threads import run_to_end
from mooring.limits import CAPTURE_PIECE_BYTES
from mooring.volume.backups import limits
from mooring.volume.backups.stores.base import Manifest, read_manifest

if TYPE_CHECKING:
    from minio import Minio

    from mooring.volume.backups.stores.s3_access import S3Access

T = TypeVar("T")
log = structlog.get_logger()
_MANIFEST, _BEGUN = "manifest.json", "begun"
_ABSENT = frozenset({"NoSuchKey", "NotFound"})
_FULL = frozenset({"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "EntityTooLarge"})
_REFUSED = frozenset(
    {
        *("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch"),
        *("AuthorizationHeaderMalformed", "InvalidSecurity", "AccountProblem", "AllAccessDisabled"),
    }
)
_LEAST_PART = 5 << 20
_CHUNK = 1 << 18


class S3Store:
    """A `BackupStore`. Making one asks nothing of the service. Raises Invalid without its library.

    Every request has a thread of the store's own, of which there are a few: a service that is slow
    holds up nobody else.
    """

    def __init__(self, access: S3Access) -> None:
        self._access = access
        self._client = _connect(access, tries=limits.S3_TRIES, connect_s=limits.S3_SEND_S)
        self._threads = ThreadPoolExecutor(limits.S3_THREADS, "backups-s3")

    async def setup(self) -> None:
        """Look whether the service can be used, and say so when not: it may be there later."""
        try:
            await self._run(self._look)
        except MooringError as error:
            log.warning(
                "backups of volumes cannot be made or restored",
                problem=error.public,
                remedy="see to the service, or to the file that backup_s3 names",
            )

    async def begin(self, backup_id: str) -> None:
        await self._run(lambda: self._put(self._access.name(backup_id, _BEGUN), b""))

    async def put_piece(self, backup_id: str, sha256: str, data: bytes) -> None:
        name = self._access.name(backup_id, sha256)

        def put_piece() -> None:
            if self._size(name) != len(data):
                self._put(name, data)
            self._require_begun(backup_id, name)

        await self._run(put_piece)

    async def put_manifest(self, manifest: Manifest) -> None:
        backup_id = manifest.backup_id
        name = self._access.name(backup_id, _MANIFEST)

        def put_manifest() -> None:
            self._require_begun(backup_id, "")
            self._put(name, msgspec.json.encode(manifest))
            self._require_begun(backup_id, name)
            kept = {*manifest.stored, _MANIFEST, _BEGUN}
            found = self._names(self._access.folder(backup_id))
            self._remove(each for each in found if each.rpartition("/")[2] not in kept)

        await self._run(put_manifest)

    async def find_manifest(self, backup_id: str) -> Manifest | None:
        name = self._access.name(backup_id, _MANIFEST)

        def find() -> Manifest | None:
            return read_manifest(backup_id, self._get(name, limits.MANIFEST_BYTES))

        return await self._run(find)

    async def find_piece(self, backup_id: str, sha256: str) -> bytes | None:
        name = self._access.name(backup_id, sha256)
        # One that is longer was changed, which its digest tells.
        return await self._run(lambda: self._get(name, CAPTURE_PIECE_BYTES + 1))

    async def find_pieces(self, backup_id: str) -> frozenset[str]:
        def find() -> frozenset[str]:
            names = self._names(self._access.folder(backup_id))
            return frozenset(name.rpartition("/")[2] for name in names) - {_BEGUN, _MANIFEST}

        return await self._run(find)

    async def delete(self, backup_id: str) -> None:
        def delete() -> None:
            for last in (_BEGUN, _MANIFEST):
                self._remove([self._access.name(backup_id, last)])
            self._remove(self._names(self._access.folder(backup_id)))

        await self._run(delete)

    async def backups(self) -> Mapping[str, bool]:
        def find() -> dict[str, bool]:
            prefix = self._access.folder()
            found = self._client.list_objects(self._access.bucket, prefix or None)
            named = [(each.object_name or "").removeprefix(prefix) for each in found]
            ids = [name.rstrip("/") for name in named if name.endswith("/")]
            return {each: self._size(self._access.name(each, _MANIFEST)) >= 0 for each in ids}

        return await self._run(find)

    def _look(self) -> None:
        client = _connect(self._access, tries=0, connect_s=limits.S3_LOOK_S)
        # Of a bucket that one may not see, only a question with a body to its answer tells why.
        next(iter(client.list_objects(self._access.bucket, self._access.folder() or None)), None)

    def _require_begun(self, backup_id: str, put: str) -> None:
        """Take back what was put to a backup that is being deleted. Raises Conflict."""
        if self._size(self._access.name(backup_id, _BEGUN)) >= 0:
            return
        self._require_bucket()
        if put:
            self._remove([put])
        raise Conflict("The backup was deleted while it was being written. Nothing of it is kept.")

    def _put(self, name: str, data: bytes) -> None:
        whole = max(_LEAST_PART, len(data))
        bucket, content = self._access.bucket, io.BytesIO(data)
        self._client.put_object(bucket, name, content, len(data), part_size=whole)

    def _size(self, name: str) -> int:
        """Return how many bytes an object has; -1 where it, or the bucket, is not."""
        try:
            return self._client.stat_object(self._access.bucket, name).size or 0
        except Exception as error:
            if getattr(error, "code", None) not in _ABSENT:
                raise
            return -1

    def _get(self, name: str, most_bytes: int) -> bytes | None:
        """Return an object, or its first bytes; None where it is not."""
        try:
            response = self._client.get_object(self._access.bucket, name)
        except Exception as error:
            if getattr(error, "code", None) not in _ABSENT:
                raise
            return None
        ends_at, found = time.monotonic() + limits.S3_READ_S, bytearray()
        try:
            while len(found) < most_bytes and (chunk := response.read(_CHUNK)):
                found += chunk
                if time.monotonic() > ends_at:
                    raise self._unavailable("it sends too slowly")
        finally:
            response.close()
            response.release_conn()
        return bytes(found[:most_bytes])

    def _require_bucket(self) -> None:
        """Raise Unavailable where there is no bucket: nothing is gone from what is not there."""
        if not self._client.bucket_exists(self._access.bucket):
            raise self._unavailable(f"bucket {self._access.bucket} is not there")

    def _names(self, prefix: str) -> Iterator[str]:
        found = self._client.list_objects(self._access.bucket, prefix, recursive=True)
        return (each.object_name for each in found if each.object_name)

    def _remove(self, names: Iterator[str] | list[str]) -> None:
        """Remove objects one by one, several at a time: not every service takes a list of them."""
        with ThreadPoolExecutor(limits.S3_THREADS) as threads:
            left = iter(names)
            while batch := list(islice(left, limits.S3_PAGE)):
                list(threads.map(self._remove_one, batch))

    def _remove_one(self, name: str) -> None:
        self._client.remove_object(self._access.bucket, name)

    async def _run(self, act: Callable[[], T]) -> T:
        """Ask the service in a thread, and say what went wrong in our own words."""

        def attempt() -> T:
            try:
                return act()
            except MooringError:
                raise
            except Exception as error:
                raise self._translate(error) from error

        return await run_to_end(attempt, self._threads)

    def _translate(self, error: Exception) -> Exception:
        from minio.error import MinioException, S3Error
        from urllib3.exceptions import HTTPError

        if isinstance(error, S3Error) and error.code in _FULL:
            return NoCapacity(
                f"Bucket {self._access.bucket} for backups is full; nothing of the backup was "
                "kept. Delete other backups, or have room made.",
                private=str(error),
            )
        if isinstance(error, S3Error) and error.code in _REFUSED:
            return Conflict(
                f"The service at {self._access.endpoint} for backups refuses the access key: "
                f"{error.code}. Have the operator see to the file that backup_s3 names.",
                private=str(error),
            )
        if isinstance(error, S3Error):
            return self._unavailable(f"it says {error.code}", str(error))
        if isinstance(error, HTTPError | OSError):
            return self._unavailable("it does not answer, or not to the end", str(error))
        if isinstance(error, MinioException | ParseError):
            return self._unavailable("what it answers is not S3", str(error))
        return error

    def _unavailable(self, why: str, private: str = "") -> Unavailable:
        return Unavailable(
            f"The service at {self._access.endpoint} for backups cannot be used: {why}. See to it "
            "that the control plane reaches it, and its bucket.",
            private=private,
        )


def _connect(access: S3Access, *, tries: int, connect_s: float) -> Minio:
    try:
        import urllib3
        from minio import Minio
        from minio.helpers import check_bucket_name
    except ImportError as error:
        raise Invalid(
            "The setting backup_s3 needs a library that is not installed: pip install "
            "'mooring[s3]' where the control plane runs."
        ) from error
    authority = Path(access.authority).expanduser() if access.authority else None
    try:
        made = Minio(
            access.address,
            access.access_key,
            access.secret_key,
            secure=access.is_secure,
            region=access.region,
            http_client=urllib3.PoolManager(
                maxsize=2 * limits.S3_THREADS,
                # What is sent has as long as connecting may take, an answer as long as reading.
                timeout=urllib3.Timeout(connect=connect_s, read=2 * connect_s),
                retries=urllib3.Retry(tries, backoff_factor=0.2, redirect=False),
                ssl_context=ssl.create_default_context(cafile=authority),
            ),
        )
        check_bucket_name(access.bucket)
    except (OSError, ValueError) as error:
        raise Invalid(f"The store that backup_s3 names cannot be used: {error}.") from error
    if access.path_style:
        made.disable_virtual_style_endpoint()
    else:
        made.enable_virtual_style_endpoint()
    return made
