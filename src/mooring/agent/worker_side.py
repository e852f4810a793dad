"""The helper process's side: read a line, do what it asks, answer with a line."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mooring import typed
from mooring.agent.worker import Reply, Request
from mooring.errors import Bug, to_record

Verb = Callable[[Any], Any]


def serve(verbs: Mapping[str, Verb]) -> None:
    """Answer until the agent hangs up. Whatever a library prints goes to standard error."""
    answers = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(0, "rb") as asked, os.fdopen(answers, "wb") as told:
        for line in asked:
            told.write(msgspec.json.encode(_answer(verbs, line)) + b"\n")
            told.flush()


def _answer(verbs: Mapping[str, Verb], line: bytes) -> Reply:
    try:
        request = typed.decode(line, Request)
        if (verb := verbs.get(request.verb)) is None:
            raise Bug(f"A helper process does not know {request.verb}.")
        return Reply(result=verb(request.arguments))
    except Exception as error:  # noqa: BLE001 (the agent gets it, whatever it is)
        return Reply(error=to_record(error))
