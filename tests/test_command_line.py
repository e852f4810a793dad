"""What a command is given by mistake is refused before anything is done with it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring import logs
from mooring.command_line import run
from mooring.config import Settings
from mooring.main import cli

HOST_VERBS = ("add", "drain", "enable", "evacuate", "fence", "remove", "renew", "show")
OPERATION_VERBS = ("abort", "retry", "show", "watch")


@pytest.mark.parametrize("words", [("operations", "list"), ("host", "list")])
def test_an_empty_state_directory_is_not_the_default_one(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*words, "--state-dir", ""])
    assert done.exit_code == 2
    assert "'--state-dir': it is empty. Nothing was done" in done.stderr


@pytest.mark.parametrize("given", ["", ".", "..", "a\nb"])
@pytest.mark.parametrize(
    ("group", "verb"),
    [("host", verb) for verb in HOST_VERBS] + [("operations", verb) for verb in OPERATION_VERBS],
)
def test_what_can_be_no_name_is_not_asked_for(group: str, verb: str, given: str) -> None:
    done = CliRunner().invoke(cli, [group, verb, given, "--state-dir", "/nowhere"])
    assert done.exit_code == 2
    assert f"{given!r} names nothing. Nothing was done; mooring {group} list" in done.stderr


@pytest.fixture
def loggers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loggers keep the first stream that they are given, and a test's is closed behind it."""

    def keep_loggers(_level: str) -> None: ...

    monkeypatch.setattr(logs, "configure", keep_loggers)


@pytest.mark.usefixtures("loggers_stay")
def test_a_control_plane_without_its_database_says_what_its_operator_can_do(tmp_path: Path) -> None:
    # Nothing listens on the first port: it is of a service that no system starts.
    where = ("--listen", "127.0.0.1:0", "--database", "postgresql://127.0.0.1:1/none")
    done = CliRunner().invoke(cli, ["serve", "--state-dir", str(tmp_path), *where])
    assert done.exit_code == 1
    [line] = done.stderr.splitlines()
    assert "The PostgreSQL database that the setting database (--database) names" in line
    assert "does not answer: connection failed" in line
    assert "Nothing was changed" in line
    assert line.endswith("then give this command again.")


@pytest.mark.usefixtures("loggers_stay")
def test_a_file_of_somebody_else_is_named_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def work(_settings: Settings) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/theirs/seal.key")

    with pytest.raises(SystemExit) as ended:
        run(work, None, {})
    assert ended.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("mooring: /theirs/seal.key cannot be used: Permission denied.")
    assert "--state-dir" in line
