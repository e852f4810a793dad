"""What a request's body is in each microversion: one struct says it for all of them.

    class AttachmentBody(Struct, frozen=True, forbid_unknown_fields=True):
        volume_uuid: Uuid
        mode: Annotated[Mode | None, Since(3, 54)] = None

    @api.post("/attachments", AttachmentBody, key="attachment", since=(3, 27), policy=...)

A field outside of its versions is an unknown key: refused or ignored as others are. The handler
gets the declared struct all the same, with the field's default. `Required` has no default on the
wire, `Gap` takes a field out for a while, and `Was(kind, until)` tells of what kind it was before.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from functools import cache, reduce
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from mooring.web.api import Route, Version

_WRAPPED, _DECLARED = "wrapped", "declared"


class Since:
    """A field that a body has from a microversion on."""

    def __init__(self, major: int, minor: int) -> None:
        self.version = major, minor
        self.edges = (self.version,)

    def allows(self, stage: Version) -> bool:
        """Tell whether a body of this stage may have the field."""
        return stage >= self.version


class Until:
    """A field that a body has up to a microversion, inclusive."""

    def __init__(self, major: int, minor: int) -> None:
        self.version = major, minor
        self.edges = (_after(self.version),)

    def allows(self, stage: Version) -> bool:
        """Tell whether a body of this stage may have the field."""
        return stage <= self.version


class Gap:
    """A field that a body lacks from one microversion to another, both inclusive."""

    def __init__(self, first: Version, last: Version) -> None:
        self.first, self.last = first, last
        self.edges = first, _after(last)

    def allows(self, stage: Version) -> bool:
        """Tell whether a body of this stage may have the field."""
        return not self.first <= stage <= self.last


class Required:
    """A field that a body must have from a microversion on; its default is for earlier ones."""

    def __init__(self, major: int, minor: int) -> None:
        self.version = major, minor
        self.edges = (self.version,)


class Was:
    """The kind of a field up to a microversion, inclusive; the lowest one that is left counts."""

    def __init__(self, kind: Any, until: Version) -> None:
        self.kind, self.version = kind, until
        self.edges = (_after(until),)


_Mark: TypeAlias = Since | Until | Gap | Required | Was


def _after(version: Version) -> Version:
    return version[0], version[1] + 1


class Form(Struct, frozen=True):
    """How bodies of one route look in some microversions."""

    kind: Any
    """What the JSON is decoded as."""
    key: str
    """The member of it that the handler wants; empty when it wants all of it."""
    is_derived: bool
    """Whether it has to become what the handler wants."""

    def read(self, decoded: Any) -> Any:
        """Return what the handler gets of what was decoded."""
        value = getattr(decoded, _WRAPPED) if self.key else decoded
        return _restore(value) if self.is_derived else value


def form_of(route: Route, version: Version) -> Form:
    """Return the form of a route's bodies in one microversion.

    Forms are kept: there are as many as routes have stages, whatever versions clients ask for.
    """
    closed = route.closed_since is not None and version >= route.closed_since
    edges = _edges(route.body)
    stage = edges[sum(edge <= version for edge in edges) - 1]
    return _form(route.body, route.key, stage, only=route.only_key, closed=closed)


@cache
def _edges(kind: Any) -> tuple[Version, ...]:
    """Return the versions from which a body may look different than before, oldest first."""
    found = {edge for mark in _marks(kind, set()) for edge in mark.edges}
    return tuple(sorted({(0, 0), *found}))


def _marks(kind: Any, seen: set[Any]) -> Iterator[_Mark]:
    if isinstance(kind, type) and issubclass(kind, Struct) and kind not in seen:
        seen.add(kind)
        for field in msgspec.structs.fields(kind):
            yield from _marks(field.type, seen)
    for part in get_args(kind):
        if isinstance(part, _Mark):
            yield part
        if isinstance(part, Was):
            yield from _marks(part.kind, seen)
        else:
            yield from _marks(part, seen)


@cache
def _form(kind: Any, key: str, stage: Version, *, only: bool, closed: bool) -> Form:
    derived = _at(kind, stage, closed=closed)
    whole = derived
    if key:
        fields = [(_WRAPPED, derived)]
        rename = {_WRAPPED: key}
        whole = msgspec.defstruct("Body", fields, rename=rename, forbid_unknown_fields=only)
    return Form(whole, key, derived is not kind)


def _at(kind: Any, stage: Version, *, closed: bool = False) -> Any:
    """Return what a kind is in the versions of one stage; itself when nothing in it differs."""
    whole: Any = kind
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _struct_at(kind, stage, closed=closed)
    parts: tuple[Any, ...] = get_args(whole)
    inner = tuple(_at(part, stage, closed=closed) for part in parts)
    if all(one is other for one, other in zip(parts, inner, strict=True)):
        return whole
    origin: Any = get_origin(whole)
    if origin in (Union, types.UnionType):
        return reduce(lambda one, other: one | other, inner)
    return Annotated[inner] if origin is Annotated else origin[inner]


@cache
def _struct_at(kind: type[Struct], stage: Version, *, closed: bool) -> Any:
    config = kind.__struct_config__
    fields: list[Any] = []
    differs = closed and not config.forbid_unknown_fields
    for field in msgspec.structs.fields(kind):
        marks = list(_own(field.type))
        if not all(mark.allows(stage) for mark in marks if isinstance(mark, Since | Until | Gap)):
            differs = True
            continue
        was = [mark for mark in marks if isinstance(mark, Was) and stage <= mark.version]
        wanted = min(was, key=lambda mark: mark.version).kind if was else field.type
        found = _at(wanted, stage)
        required = any(isinstance(mark, Required) and stage >= mark.version for mark in marks)
        differs = differs or required or found is not field.type
        fields.append((field.name, found, *_default(field, required=required)))
    if not differs:
        return kind
    return msgspec.defstruct(
        kind.__name__,
        fields,
        rename={field.name: field.encode_name for field in msgspec.structs.fields(kind)},
        forbid_unknown_fields=closed or config.forbid_unknown_fields,
        kw_only=True,
        namespace={_DECLARED: kind},
    )


def _restore(value: Any) -> Any:
    """Return a decoded value with each struct as it was declared."""
    if isinstance(value, Struct):
        declared = getattr(type(value), _DECLARED, None)
        if declared is None:
            return value
        names = value.__struct_fields__
        return declared(**{name: _restore(getattr(value, name)) for name in names})
    whole: Any = value
    if isinstance(value, dict):
        return {key: _restore(each) for key, each in whole.items()}
    if isinstance(value, list):
        return [_restore(each) for each in whole]
    return whole


def _own(kind: Any) -> Iterator[_Mark]:
    """Yield the marks of a field itself, none of what is in it."""
    if get_origin(kind) is Annotated:
        yield from (part for part in get_args(kind)[1:] if isinstance(part, _Mark))


def _default(field: msgspec.structs.FieldInfo, *, required: bool) -> tuple[Any, ...]:
    if required or field.required:
        return ()
    if field.default_factory is not msgspec.NODEFAULT:
        return (msgspec.field(default_factory=field.default_factory),)
    return (field.default,)
