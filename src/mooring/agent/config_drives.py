"""A guest's config drive: what stands on it, and the file that it is.

The file is made anew before each start of the guest, and by nothing else: a guest that runs reads
what it was started with, on whichever host. So the random seed is a new one each time, although
a call that is repeated must do nothing else than the call before: it finds the guest running, or
nobody has read the seed of the call before.

Source: facts/network.md 7.1 and 7.2.
"""

from __future__ import annotations

import base64
import lzma
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from mooring.agent import files, iso9660
from mooring.agent.limits import AGENT_DRIVE_BYTES
from mooring.agent_api.config_drives import ConfigDrive
from mooring.errors import Invalid

FILE = "config-drive.iso"
LABEL = "config-2"
"""By which guests look for it."""
META_DATA, USER_DATA = "openstack/latest/meta_data.json", "openstack/latest/user_data"
_SEED_BYTES = 512
_UNPACK_MEMORY_BYTES = 64 * 1024**2
"""What unpacking may take: what `lzma.compress` makes needs a tenth of it."""
_NO_DRIVE = "What came as a config drive is none, or is too large. Nothing was made of it."
VERSIONS = (
    "2012-08-10",
    "2013-04-04",
    "2013-10-17",
    "2015-10-15",
    "2016-06-30",
    "2016-10-06",
    "2017-02-22",
    "2018-08-27",
    "2020-10-14",
    "2025-04-04",
    "latest",
)
_SINCE = {
    "random_seed": "2013-04-04",
    "vendor_data": "2013-10-17",
    "project_id": "2015-10-15",
    "devices": "2016-06-30",
    "vendor_data2": "2016-10-06",
    "dedicated_cpus": "2020-10-14",
    "shares": "2025-04-04",
}
"""What the older versions do not have."""


def build(drive: ConfigDrive) -> bytes:
    """Return the drive, with a random seed of its own. Raises Invalid when it would be too large.

    Its size does not depend on the seed.
    """
    seed = base64.b64encode(secrets.token_bytes(_SEED_BYTES)).decode()
    documents = {f"openstack/{path}": text for path, text in _documents(drive, seed)}
    image = iso9660.build(documents, LABEL)
    if len(image) > AGENT_DRIVE_BYTES:
        raise Invalid(
            f"The config drive of server {drive.uuid} would have {len(image)} bytes, and "
            f"{AGENT_DRIVE_BYTES} fit. It was not made; take some of the server's metadata away."
        )
    return image


def lay_down(directory: Path, image: bytes, operation_key: str) -> None:
    """Put a drive into a guest's directory in one go, for its owner alone. Raises NoCapacity.

    What a call before this one left of another is removed.
    """
    files.make_private(directory / FILE, image, operation_key)


def take_up(directory: Path) -> None:
    """Remove the drive from a guest's directory, with what was never finished of one.

    Raises Unavailable.
    """
    files.remove_private(directory / FILE)


def pack(image: bytes) -> bytes:
    """Return a drive as it goes from host to host: most of it is there several times."""
    return lzma.compress(image)


def unpack(packed: bytes) -> bytes:
    """Return a drive that came from another host, to the byte. Raises Invalid for what is none."""
    decompressor = lzma.LZMADecompressor(memlimit=_UNPACK_MEMORY_BYTES)
    try:
        # One byte more than fits: only behind the last one does it see the end.
        image = decompressor.decompress(packed, AGENT_DRIVE_BYTES + 1)
    except lzma.LZMAError as error:
        raise Invalid(_NO_DRIVE) from error
    if not decompressor.eof or len(image) > AGENT_DRIVE_BYTES:
        raise Invalid(_NO_DRIVE)
    return image


def _documents(drive: ConfigDrive, seed: str) -> Iterator[tuple[str, bytes]]:
    for version in VERSIONS:
        yield f"{version}/meta_data.json", _encode(_meta_data(drive, seed, version))
        for name in ("vendor_data", "vendor_data2"):
            if _has(version, name):
                yield f"{version}/{name}.json", b"{}"
        if drive.user_data:
            yield f"{version}/user_data", drive.user_data


def _meta_data(drive: ConfigDrive, seed: str, version: str) -> dict[str, Any]:
    shows_shares = _has(version, "shares")
    whole: dict[str, Any] = {
        "uuid": drive.uuid,
        "name": drive.name,
        "hostname": drive.hostname,
        "launch_index": drive.launch_index,
        "availability_zone": drive.availability_zone,
        "random_seed": seed,
        "project_id": drive.project_id,
        "devices": [one for one in drive.devices if shows_shares or one["type"] != "share"],
        "dedicated_cpus": [],
    }
    if drive.meta:
        whole["meta"] = drive.meta
    if drive.keys:
        whole["public_keys"] = {key.name: key.data for key in drive.keys}
        whole["keys"] = drive.keys
    return {name: value for name, value in whole.items() if _has(version, name)}


def _has(version: str, name: str) -> bool:
    # "latest" is behind every date, as letters are behind digits.
    return version >= _SINCE.get(name, "")


def _encode(document: dict[str, Any]) -> bytes:
    return msgspec.json.encode(document)
