"""The TOML files that an operator writes; one that cannot be read is told in one line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from mooring.errors import Invalid

_STATE = "Nothing was started;"


def read(path: Path, what: str) -> dict[str, Any]:
    """Return what a file says. `what` is what it is called in messages, as "settings file".

    Raises Invalid, which says what to do, for one that is missing or cannot be read, and for what
    is no TOML.
    """
    named = f"The {what} {path}"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        message = f"{named} does not exist. {_STATE} create it, or name another one."
        raise Invalid(message) from error
    except IsADirectoryError as error:
        raise Invalid(f"{named} is a directory. {_STATE} name a file.") from error
    except OSError as error:
        raise Invalid(
            f"{named} cannot be read: {error.strerror}. {_STATE} let this user read it, or name "
            "another one."
        ) from error
    except UnicodeDecodeError as error:
        raise Invalid(
            f"{named} is not in UTF-8, from byte {error.start + 1} on. {_STATE} save it in UTF-8, "
            "as TOML is, or name another one."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise Invalid(
            f"{named} is no TOML: {error}. {_STATE} correct it there, or name another one."
        ) from error
