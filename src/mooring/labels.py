"""Metadata that users give to things: merged into what is there, or put in its place, bounded."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.errors import Invalid, NotFound
from mooring.row_limits import LABELS


def merge(before: Mapping[str, str], items: Mapping[str, str], *, whole: bool) -> dict[str, str]:
    """Return what a thing has afterwards. Raises Invalid when that is more than it may have.

    A thing that has more, from before there was a bound, may still be given less, or other values.
    """
    after = {**({} if whole else before), **items}
    if len(after) > LABELS and len(after) > len(before):
        raise Invalid(
            f"Maximum number of metadata items exceeds {LABELS}. Nothing was changed; take some "
            "away first."
        )
    return after


def without(before: Mapping[str, str], key: str, of: str, kind: str = "metadata") -> dict[str, str]:
    """Return what a thing has without one item. Raises NotFound where it has none.

    The error names the thing as in `of`, "Share ...", and the item as one of `kind`.
    """
    if key not in before:
        raise NotFound(f"{of} has no {kind} with key {key}.")
    return {name: value for name, value in before.items() if name != key}
