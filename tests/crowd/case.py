"""What eight clients send to one route at the same time, and what must be there afterwards.

In paths, bodies and what is looked for, `{name}` is an id that stands ready and `#` the number of
the client, 0 to 7.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

CROWD = 8
_NAME = re.compile(r"\{([\w#]+)\}")


class Ask(Struct, frozen=True):
    """One request. With `#` in it it is made for every client; `saves` keeps an id of the answer.

    `of` is where the answer has the id, as `volume.id` or `migrations.0.id`.
    """

    method: str
    path: str
    body: Any = None
    saves: str = ""
    of: str = ""
    version: str = "latest"


class Case(Struct, frozen=True, kw_only=True):
    """Eight requests to one route. `body` may be bytes, which are sent as they are.

    Of what went well: `kept` is in the answer to `look` for each, `one` for one of them (they wrote
    the same value), `gone` for none. `refused` says that none goes well, because it is not built
    here, or stands for what it is not.
    """

    route: str
    body: Any = None
    path: str = ""
    before: tuple[Ask, ...] = ()
    look: str = ""
    kept: str = ""
    one: str = ""
    gone: str = ""
    version: str = "latest"
    user: str = "admin"
    media: str = ""
    alone: bool = False
    """Whether exactly one of them may go well."""
    refused: bool = False

    def request(self, number: int, names: dict[str, str]) -> tuple[str, str, Any]:
        """Return the method, path and body of one client."""
        method, route, *_ = self.route.split(" ")
        body = self.body if isinstance(self.body, bytes) else fill_body(self.body, number, names)
        return method, fill(self.path or route, number, names), body


def fill(text: str, number: int, names: dict[str, str]) -> str:
    """Return a text with the client's number and the ids that it names."""
    numbered = text.replace("#", str(number))
    return _NAME.sub(lambda found: names.get(found[1], found[0]), numbered)


def fill_body(body: Any, number: int, names: dict[str, str]) -> Any:
    """Return a body with the client's number and the ids that it names."""
    return None if body is None else json.loads(fill(json.dumps(body), number, names))
