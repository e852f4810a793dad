"""What projects and domains may be marked with. Source: facts/identity_image_placement.md 4.1."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

MOST_TAGS = 80
Tag = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^,/]*$")]
Tags = Annotated[list[Tag], Meta(max_length=MOST_TAGS)]
