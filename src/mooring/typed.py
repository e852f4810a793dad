"""JSON and plain values become typed ones here and nowhere else, in any thread.

msgspec describes a type to itself when the type is first used, and takes a Struct for described
before its fields are. A second thread that uses it in that moment crashes the whole process. So
each type is described under a lock, once.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")

_describing = threading.Lock()
_described: set[Any] = set()


@overload
def decode(content: bytes | str, kind: type[T]) -> T: ...
@overload
def decode(content: bytes | str, kind: Any) -> Any: ...
def decode(content: bytes | str, kind: Any) -> Any:
    """Return what JSON says, as a value of `kind`.

    Raises msgspec.DecodeError when it is no JSON, its ValidationError when it is no `kind`.
    """
    _describe(kind)
    return msgspec.json.decode(content, type=kind)


@overload
def unpack(content: bytes, kind: type[T]) -> T: ...
@overload
def unpack(content: bytes, kind: Any) -> Any: ...
def unpack(content: bytes, kind: Any) -> Any:
    """Return what MessagePack says, as a value of `kind`. Raises as `decode` does."""
    _describe(kind)
    return msgspec.msgpack.decode(content, type=kind)


@overload
def convert(value: Any, kind: type[T], *, strict: bool = True) -> T: ...
@overload
def convert(value: Any, kind: Any, *, strict: bool = True) -> Any: ...
def convert(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """Return a value of dictionaries, lists and scalars as one of `kind`.

    Unless it is `strict`, text may stand for numbers. Raises msgspec.ValidationError.
    """
    _describe(kind)
    return msgspec.convert(value, kind, strict=strict)


def _describe(kind: Any) -> None:
    """Have msgspec know a type, and all types in it, before any thread relies on that."""
    if kind in _described:
        return
    with _describing:
        msgspec.json.Decoder(kind)
        _described.add(kind)
