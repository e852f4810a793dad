"""`docs/configuration.md`, made from the settings: what each is, may be, and is by default."""

from __future__ import annotations

from types import NoneType
from typing import Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from mooring.config import FILE_VARIABLE, PREFIX, Settings

HEADING = f"""\
# Configuration

Made from `src/mooring/config.py` by `make golden`; change it there.

Every setting has a default. Others are read from one TOML file (`mooring up --config FILE`, or the
variable `{FILE_VARIABLE}`), then from the variables below, then from the command line: the last one
wins. A key or a variable that is not in this list is refused.

| key | variable | values | default | what it is |
|---|---|---|---|---|
"""


def reference() -> str:
    """Return `docs/configuration.md`."""
    lines: list[str] = []
    for field in msgspec.structs.fields(Settings):
        default = "none" if field.default is None else msgspec.json.encode(field.default).decode()
        lines.append(
            f"| `{field.name}` | `{PREFIX}{field.name.upper()}` | {_values(field.name)}"
            f" | `{default}` | {description(field.name)} |"
        )
    return HEADING + "\n".join([*lines, ""])


def description(name: str) -> str:
    """Return what the documentation says about a setting; empty when it says nothing."""
    texts = [meta.description or "" for meta in _metas(name)]
    return " ".join(text for text in texts if text)


def _metas(name: str) -> list[Meta]:
    hint = get_type_hints(Settings, include_extras=True)[name]
    return [meta for meta in get_args(hint)[1:] if isinstance(meta, Meta)]


def _values(name: str) -> str:
    hint = get_type_hints(Settings)[name]
    if get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    if get_origin(hint) is tuple:
        words = get_args(get_args(hint)[0])
        return f"list of {', '.join(f'`{word}`' for word in words)}" if words else "list of texts"
    kind = next((one for one in get_args(hint) if one is not NoneType), hint)
    text = {str: "text", int: "number", float: "number", bool: "`true`, `false`"}[kind]
    least = max((meta.ge for meta in _metas(name) if meta.ge is not None), default=None)
    most = min((meta.le for meta in _metas(name) if meta.le is not None), default=None)
    if least is not None and most is not None:
        return f"{text}, {least} to {most}"
    return text if least is None else f"{text}, {least} or more"
