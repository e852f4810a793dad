"""Fields that are typed alike wherever users write them: in bodies, and in what images say."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

LARGEST = 2**31 - 1
"""The largest whole number of a body: what the database of a real Nova holds."""

Uuid = Annotated[str, Meta(pattern=r"^[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}\Z")]
"""A uuid, with or without its dashes."""

# PostgreSQL stores no NUL. A body with one is refused as a whole, but not what an image says.
Short = Annotated[str, Meta(max_length=255, pattern=r"^[^\x00]*\Z")]
Given = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00]+\Z")]
Tag = Annotated[str, Meta(min_length=1, max_length=60, pattern=r"^[^,/\x00]+\Z")]
DeviceName = Annotated[str, Meta(max_length=255, pattern=r"^[a-zA-Z0-9._/-]*\Z")]
