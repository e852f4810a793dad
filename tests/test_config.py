"""The settings: where they come from, what is refused, and that each is documented."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from mooring import config_reference
from mooring.config import Settings, load
from mooring.errors import Invalid

NAMES = [field.name for field in msgspec.structs.fields(Settings)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mooring.toml"


def test_nothing_given_serves_this_machine_alone() -> None:
    settings = load(environment={})
    assert settings == Settings()
    assert (settings.address, settings.port) == ("127.0.0.1", 8470)
    assert settings.state_path.is_absolute()


@pytest.mark.parametrize(
    ("user", "kept", "chosen"),
    [
        (1000, False, "~/.local/state/mooring"),
        (0, False, "/var/lib/mooring"),
        (0, True, "~/.local/state/mooring"),
    ],
)
def test_root_s_clouds_are_where_guests_get_unless_one_is_at_home_from_before(
    user: int, kept: bool, chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    if kept:
        (tmp_path / ".local" / "state" / "mooring").mkdir(parents=True)
    assert Settings().state_path == Path(chosen).expanduser()


def test_the_command_line_wins_over_variables_and_variables_over_the_file(file: Path) -> None:
    file.write_text('hosts = 2\nregion = "here"\nlisten = "127.0.0.1:1"\n')
    settings = load(
        file,
        environment={"MOORING_HOSTS": "3", "MOORING_LISTEN": "127.0.0.1:2", "HOME": "/root"},
        overrides={"listen": "[::1]:0", "database": None},
    )
    assert (settings.region, settings.hosts, settings.listen) == ("here", 3, "[::1]:0")
    assert (settings.address, settings.port) == ("::1", 0)


def test_a_variable_names_the_file_when_no_argument_does(file: Path) -> None:
    file.write_text("hosts = 7\n")
    assert load(environment={"MOORING_CONFIG": str(file)}).hosts == 7


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("host = 2", "There is no setting host, .*Did you mean hosts"),
        ("[quota]\nvolumes = 1", "There is no setting quota"),
        ('hosts = "2"', "setting hosts in the file .* Expected `int`"),
        ("hosts = 0", "setting hosts .* >= 1"),
        ('hypervisor = "xen"', "setting hypervisor .*'xen'"),
        ("token_lifetime_s = 59", "setting token_lifetime_s .* >= 60"),
        ("hosts = ", r"is no TOML: .*end of doc.* Nothing was started; correct it"),
        ('listen = "8470"', "must be ADDRESS:PORT"),
        ('listen = "127.0.0.1:70000"', "must be ADDRESS:PORT, and is .* 1 to 65535, or 0 for any"),
        ('copy_listen = "127.0.0.1:-1"', "setting copy_listen must be ADDRESS:PORT.* 1 to 65535"),
        ('hosts_listen = "127.0.0.1:x"', "setting hosts_listen must be ADDRESS:PORT.* 1 to 65535"),
        (
            'hosts_listen = "127.0.0.1:0"\nhosts_address = "a.test:0"',
            r"setting hosts_address must be ADDRESS:PORT.* A port is 1 to 65535\.$",
        ),
        ('listen = "::1:8470"', "in brackets"),
        ('public_url = "cloud.example"', "must begin with http"),
        ('database = "mysql://db/mooring"', "begin with postgresql"),
        ('agents = ["h1=/run/h1.sock", "h2"]', "agents has 'h2', .* NAME=/path"),
        ('agents = ["h1=run/h1.sock"]', "agents has 'h1=run/h1.sock'"),
        ('agents = ["h 1=/run/h1.sock"]', "agents has 'h 1="),
    ],
)
def test_what_does_not_fit_is_refused_by_name(file: Path, text: str, told: str) -> None:
    file.write_text(text)
    with pytest.raises(Invalid, match=told):
        load(file, environment={})


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"notifications": ["webhook"]}, "notifications_webhook is empty"),
        ({"notifications_webhook": "ftp://hook.test"}, "must begin with http"),
        ({"notifications": ["oslo.messaging"]}, "does not speak"),
        ({"notifications": ["pigeon"]}, "notifications"),
    ],
)
def test_notifications_that_could_reach_nobody_are_refused(
    values: dict[str, object], told: str
) -> None:
    with pytest.raises(Invalid, match=told):
        load(environment={}, overrides=values)


def test_a_file_that_is_not_there_is_refused(file: Path) -> None:
    with pytest.raises(Invalid, match=r"does not exist\. .* create it"):
        load(file, environment={})


def test_what_is_no_file_or_no_text_is_refused_with_what_to_do(file: Path) -> None:
    with pytest.raises(Invalid, match=r"is a directory\. Nothing was started; name a file\."):
        load(file.parent, environment={})
    file.write_bytes(b'region = "K\xf6ln"\n')
    with pytest.raises(Invalid, match=r"not in UTF-8, from byte 12 on\. .* save it in UTF-8"):
        load(file, environment={})
    with pytest.raises(Invalid, match=r"cannot be read: Not a directory\. .* let this user read"):
        load(file / "below", environment={})


def test_a_file_of_somebody_else_s_is_refused_with_what_to_do(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    # Root, who runs tests, may read everything.
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(Invalid, match=r"cannot be read: Permission denied\. .* let this user read"):
        load(file, environment={})


def test_an_unknown_variable_is_refused() -> None:
    with pytest.raises(Invalid, match="no setting kilat, which the environment gives"):
        load(environment={"MOORING_KILAT": "x"})


def test_a_variable_that_is_no_number_is_refused() -> None:
    with pytest.raises(Invalid, match="setting hosts in the environment"):
        load(environment={"MOORING_HOSTS": "many"})


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_says_what_it_is(name: str) -> None:
    assert len(config_reference.description(name)) > 10


def test_the_documentation_is_what_the_settings_say(golden: Callable[[str, str], None]) -> None:
    golden("docs/configuration.md", config_reference.reference())
