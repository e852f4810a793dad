"""What a flavor's `hw:mem_page_size` asks for."""

from __future__ import annotations

import re

from mooring.errors import Invalid

_SIZE = re.compile(r"(\d{1,12})\s*([KMGT]?)i?B?", re.IGNORECASE)
_KIB = {"": 1, "K": 1, "M": 1024, "G": 1024**2, "T": 1024**3}


def read_page_size(text: str) -> int:
    """Return the size in KiB of the huge pages that `hw:mem_page_size` asks for.

    0: of the host's usual size; -1: it asks for none. Raises Invalid. As upstream, a number without
    a unit is in KiB, and pages of 4 KiB are no huge ones.
    """
    if text in {"", "small", "any"}:
        return -1
    if text == "large":
        return 0
    found = _SIZE.fullmatch(text)
    size = int(found[1]) * _KIB[found[2].upper()] if found else 0
    if not size:
        raise Invalid(
            f"The flavor's hw:mem_page_size is '{text[:64]}', which names no size of pages; small, "
            "large, any, or a number of KiB does. Nothing was changed."
        )
    return -1 if size <= 4 else size
