"""The log: one line a message on standard error, as JSON, or for a person at a terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, MutableMapping
from contextlib import contextmanager, suppress
from traceback import format_exception
from typing import IO, Any

import structlog

from mooring.errors import Bug


class Patient:
    """Standard error as the log writes to it: what its disk has no room for is lost, and no more.

    A message that cannot be written must not become an error of whoever had something to say.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, as far as that is possible."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand on what was written."""
        with suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        """Whether a person reads it."""
        return self._stream.isatty()


def configure(level: str) -> None:
    """Send structlog's and the libraries' messages to standard error, from `level` on."""
    stream: Any = Patient(sys.stderr)
    least = logging.getLevelNamesMapping()[level.upper()]
    at_terminal = stream.isatty()
    render: Any = structlog.processors.JSONRenderer()
    if at_terminal:
        render = structlog.dev.ConsoleRenderer(
            exception_formatter=structlog.dev.plain_traceback, colors=True
        )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _plain_traceback,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=max(least, logging.WARNING), stream=stream, format="%(message)s")


@contextmanager
def mistakes_logged() -> Generator[None]:
    """Log what ends a process that serves and is nobody's but its own mistake; then raise Bug.

    Such is a PermissionError: before it serves one is the matter of whoever gave the command, to
    whom a line says what to do, and the line of a process that served would leave out where it was.
    """
    try:
        yield
    except (Bug, PermissionError) as error:
        structlog.get_logger().exception("this process ends by a mistake of its own")
        raise Bug(
            f"This process ended by a mistake of its own ({type(error).__name__}); the log has it "
            "with its traceback, which is worth reporting. What was under way goes on once it is "
            "started again.",
            private=str(error),
        ) from error


def _plain_traceback(
    _logger: object, _name: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Turn an exception into text. A traceback with local variables would show tokens."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()[1]
    if isinstance(error, BaseException):
        event["traceback"] = "".join(format_exception(error))
    return event
