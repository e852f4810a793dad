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


class _Optional(Struct, frozen=True):
    """The options of a thing that has none here."""

    options: dict[str, Any] | None = None


def read(
    values: dict[str, Any], form: type[T], whole: type[Struct] | None = None
) -> tuple[T, dict[str, Any]]:
    """Return what a client sent as a `form`, and beside it what identity does not know.

    That is given back to clients as it came; a change has fewer attributes than the `whole`.
    Raises Invalid, naming the attribute that does not fit, or the option that nothing would heed.
    """
    ours = {"id", "links", "options", *(whole or form).__struct_encode_fields__}
    extra = {name: value for name, value in values.items() if name not in ours}
    try:
        record = typed.convert(values, form)
        if "options" not in form.__struct_encode_fields__:
            _refuse_options(typed.convert(values, _Optional))
    except msgspec.ValidationError as error:
        raise Invalid(explain(str(error))) from error
    return record, extra


def _refuse_options(asked: _Optional) -> None:
    """Raise Invalid for options that are to be set: one that nothing heeds protects nobody.

    One that is off, or is to be taken away, is as it should be.
    """
    wanted = sorted(name for name, value in (asked.options or {}).items() if value)
    if wanted:
        raise Invalid(
            f"The option {', '.join(wanted)} is not built for this kind of thing in this cloud. "
            "Nothing was changed; leave it out, as nothing would heed it."
        )


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
