"""Where a store of backups in S3 is, and how one gets in: the file that `backup_s3` names."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

from mooring import typed
from mooring.errors import Invalid

_Said = Annotated[str, Meta(min_length=1)]


class S3Access(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file's content.

    endpoint    the service's URL, with nothing behind host and port
    prefix      what the names of all objects begin with; a slash comes behind it
    authority   a file with the authority, PEM, that its certificate is trusted by; "" for those
                that this machine trusts
    path_style  whether the bucket stands in the path, as most services have it, or in the host name
    """

    endpoint: _Said
    bucket: _Said
    access_key: _Said
    secret_key: _Said
    region: _Said = "us-east-1"
    prefix: str = ""
    authority: str = ""
    path_style: bool = True

    def __repr__(self) -> str:
        """Say where, and not how one gets in: tracebacks in logs show what is at hand."""
        return f"S3Access({self.endpoint}, {self.bucket})"

    @property
    def address(self) -> str:
        """Host and port."""
        return urlsplit(self.endpoint).netloc

    @property
    def is_secure(self) -> bool:
        """Whether it speaks TLS."""
        return urlsplit(self.endpoint).scheme == "https"

    def name(self, *parts: str) -> str:
        """Return what an object is called."""
        return "/".join(filter(None, (self.prefix.strip("/"), *parts)))

    def folder(self, *parts: str) -> str:
        """Return what the objects in a folder begin with; "" where all objects do."""
        name = self.name(*parts)
        return f"{name}/" if name else ""


def read_access(file: str) -> S3Access:
    """Return what a file says. Raises Invalid, in one line that says where."""
    path = Path(file).expanduser()
    try:
        told = tomllib.loads(path.read_text("utf-8"))
        others = path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        access = typed.convert(told, S3Access)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Invalid(
            f"The file {path}, which backup_s3 names, cannot be read: {error}."
        ) from error
    except msgspec.ValidationError as error:
        raise Invalid(f"The file {path}, which backup_s3 names, does not fit: {error}.") from error
    if others:
        raise Invalid(f"Others may read {path}: chmod 600 it, and better make a new secret key.")
    if not _is_endpoint(access.endpoint):
        raise Invalid(
            f"The endpoint in {path} must be http://HOST:PORT or https://HOST:PORT, and is "
            f"{access.endpoint}."
        )
    if "@" in access.address:
        raise Invalid(f"The endpoint in {path} has a user in it: give access_key and secret_key.")
    return access


def _is_endpoint(endpoint: str) -> bool:
    try:
        url = urlsplit(endpoint)
        is_address = bool(url.hostname) and url.port != 0
    except ValueError:
        return False
    return (
        is_address
        and url.scheme in {"http", "https"}
        and endpoint.rstrip("/") == f"{url.scheme}://{url.netloc}"
    )
