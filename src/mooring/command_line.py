"""What every command of `mooring` does around its work: settings, logs, exit codes."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

import click

from mooring import config, logs
from mooring.errors import Forbidden, MooringError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

Option = Any
_OF_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS}
_OF_SQLITE = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}


def _require_text(_context: click.Context, _option: click.Parameter, given: str | None) -> Any:
    """Refuse an empty option, as of a shell's variable that is not set, which is no default."""
    if given == "":
        raise click.BadParameter(
            "it is empty. Nothing was done; name a directory, or leave the option out for the "
            "default."
        )
    return given


def _require_name(_context: click.Context, argument: click.Parameter, given: str) -> str:
    """Refuse what can be no part of a URL's path of its own: it would ask for something else."""
    if not given.strip(".") or not given.isprintable():
        lists = "operations list --all" if argument.name == "operation_id" else "host list"
        raise click.BadParameter(
            f"{given!r} names nothing. Nothing was done; mooring {lists} shows what there is."
        )
    return given


host_argument = click.argument("name", callback=_require_name)
operation_argument = click.argument("operation_id", callback=_require_name)
state_dir_option = click.option(
    "--state-dir",
    callback=_require_text,
    help="Where everything is kept [default: root's /var/lib/mooring, or ~/.local/state/mooring].",
)


def run(
    work: Callable[[config.Settings], Coroutine[Any, Any, int | None]],
    file: Path | None,
    given: dict[str, Option],
) -> None:
    """Do the work with the settings of a file and what was given beside it, and exit."""
    try:
        settings = config.load(file, overrides={k: v for k, v in given.items() if v != ()})
        logs.configure(settings.log_level)
        code = asyncio.run(_telling_of_disk(work, settings))
    except MooringError as error:
        _stop(error)
    except PermissionError as error:
        # Of a cloud of another user: there is no work here that could go on without it. One out of
        # a process that serves is no such thing, and comes as a Bug (`logs.mistakes_logged`).
        _stop(
            Forbidden(
                f"{error.filename or 'A file of the cloud'} cannot be used: {error.strerror}. Give "
                "the command as the user to whom the cloud belongs, or name another directory with "
                "--state-dir."
            )
        )
    except KeyboardInterrupt:
        sys.exit(130)
    else:
        sys.exit(code or 0)


async def _telling_of_disk(
    work: Callable[[config.Settings], Coroutine[Any, Any, int | None]], settings: config.Settings
) -> int | None:
    """Do the work. Raises Unavailable where a disk below the cloud's files is full, or failed."""
    try:
        return await work(settings)
    except (OSError, sqlite3.Error) as error:
        if not _is_of_disk(error):
            raise
        raise _of_disk(error, settings) from error


def _is_of_disk(error: OSError | sqlite3.Error) -> bool:
    """Whether a disk below the files failed, as it may at a start: nothing is served by then."""
    if isinstance(error, OSError):
        return error.errno in _OF_DISK
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_SQLITE


def _of_disk(error: OSError | sqlite3.Error, settings: config.Settings) -> Unavailable:
    file, why = (error.filename, error.strerror) if isinstance(error, OSError) else ("", error)
    return Unavailable(
        f"{file or f'A file below {settings.state_path}'} cannot be used: {why}. What the cloud "
        "has is kept. See that the disk is whole and has room, then give the command again."
    )


def on(
    state_dir: str | None, work: Callable[[config.Settings], Coroutine[Any, Any, int | None]]
) -> None:
    """Do the work with the settings of a state directory, and exit."""
    run(work, None, {"state_dir": state_dir})


def ask(state_dir: str | None, work: Callable[[Any], Coroutine[Any, Any, int | None]]) -> None:
    """Do the work with the databases of a state directory's cloud, and exit."""
    from mooring import operator_tools

    async def asked(settings: config.Settings) -> int | None:
        async with operator_tools.open_cloud(settings) as cloud:
            return await work(cloud)

    on(state_dir, asked)


def _stop(error: MooringError) -> None:
    click.echo(f"mooring: {error.public}", err=True)
    sys.exit(1)
