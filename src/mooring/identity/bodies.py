"""Reading what clients send about a resource: known attributes checked, others kept as they are.

Source: facts/identity_image_placement.md 4.1.
"""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import uuid4

import msgspec
from msgspec import UNSET, Struct

from mooring import typed
from mooring.errors import Invalid
from mooring.web.body import explain

T = TypeVar("T", bound=Struct)


def known(values: dict[str, Any], form: type[T]) -> T:
    """Return the known attributes. Raises Invalid, naming the one that does not fit."""
    try:
        return typed.convert(values, form)
    except msgspec.ValidationError as error:
        raise Invalid(explain(str(error))) from error


def unknown(values: dict[str, Any], form: type[Struct]) -> dict[str, Any]:
    """Return the attributes that identity does not know, to be given back as they came."""
    ours = {"id", "links", "options", *form.__struct_encode_fields__}
    return {name: value for name, value in values.items() if name not in ours}


def given(record: Struct) -> dict[str, Any]:
    """Return the attributes of a change that the client sent, by name."""
    return {
        name: value
        for name in record.__struct_fields__
        if (value := getattr(record, name)) is not UNSET
    }


def new_id() -> str:
    """Return a new id: 32 hexadecimal digits."""
    return uuid4().hex
