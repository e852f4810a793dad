"""The settings: one frozen struct, read from one TOML file and the variables `MOORING_*`.

What is given later wins: default, file, variable, command line. A key that no setting has is an
error, wherever it stands. Each setting carries its own documentation, from which
`config_reference` makes `docs/configuration.md`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from mooring import config_checks, toml_file, typed
from mooring.errors import Invalid

PREFIX = "MOORING_"
FILE_VARIABLE = "MOORING_CONFIG"
"""Names the TOML file, where no `--config` does. The one variable that is no setting."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that an operator may set. Every field has a default that serves one machine."""

    state_dir: Annotated[
        str,
        Meta(
            description="The directory that holds everything: databases, keys, images, disks and"
            " `clouds.yaml`. Its owner alone may read it. `~` is the home directory. Empty:"
            " `~/.local/state/mooring`; where root has none, `/var/lib/mooring` for it."
        ),
    ] = ""
    listen: Annotated[
        str,
        Meta(
            description="Address and port of the one socket that serves all APIs, as"
            " `ADDRESS:PORT`; an IPv6 address stands in brackets. Port 0 takes any free port."
        ),
    ] = "127.0.0.1:8470"
    public_url: Annotated[
        str,
        Meta(
            description="The URL under which clients reach that socket, for the catalogue and for"
            " links, when a proxy stands before it. Empty: made from `listen`."
        ),
    ] = ""
    tls_certificate: Annotated[
        str,
        Meta(
            description="A file with the certificate of that socket, PEM, and those that certify it"
            " behind it. Empty: it speaks HTTP in the clear, which is for this machine alone or"
            " behind a proxy. A new one is shown within seconds, without a restart."
        ),
    ] = ""
    tls_key: Annotated[
        str, Meta(description="A file with its private key, PEM, which its owner alone may read.")
    ] = ""
    tls_authority: Annotated[
        str,
        Meta(
            description="A file with the authority, PEM, that clients trust the certificate by, for"
            " `clouds.yaml`. Empty: the certificate itself where it certifies itself, or else what"
            " the clients' systems trust."
        ),
    ] = ""
    region: Annotated[
        str, Meta(description="The region that the catalogue names.", min_length=1, max_length=255)
    ] = "RegionOne"
    database: Annotated[
        str,
        Meta(
            description="A `postgresql://` URL, under which each service has a schema of its own."
            " Empty: one SQLite file for each service in `state_dir`."
        ),
    ] = ""
    hypervisor: Annotated[
        Literal["auto", "libvirt", "simulated"],
        Meta(
            description="What runs the servers. `auto` takes libvirt where it works, else the"
            " simulated one, which runs no real guests. A host stays with what it had first."
        ),
    ] = "auto"
    hosts: Annotated[
        int,
        Meta(
            description="How many hosts `mooring up` makes of this machine ([hosts](hosts.md)): one"
            " is the machine itself, several are simulated, or with `libvirt`, as root, real.",
            ge=1,
            le=100,
        ),
    ] = 1
    roles: Annotated[
        tuple[Literal["compute", "volume", "share"], ...],
        Meta(description="What that machine, when it is one host, does of it.", min_length=1),
    ] = ("compute", "volume", "share")
    storage: Annotated[
        str,
        Meta(
            description="A TOML file with the pools of volumes and of shares of this machine, and"
            " how it mounts shares; [drivers](drivers.md) and [shares](shares.md) list what it may"
            " say. Empty: one pool of each in the state directory."
        ),
    ] = ""
    move_address: Annotated[
        str,
        Meta(
            description="The address at which this host's libvirt daemon takes running guests of "
            "other hosts ([how](hosts.md)). Empty: it takes none. Simulated hosts need none."
        ),
    ] = ""
    move_tls: Annotated[
        bool | None,
        Meta(description="Whether guests move over TLS ([how](hosts.md)); none: if it joined."),
    ] = None
    emulator_user: Annotated[
        str,
        Meta(
            description="The system user as whom guests run where the agent is root and brings"
            " libvirt along ([what isolates a guest](hosts.md#what-isolates-a-guest)). It has to"
            " pass the directories above the state directory. As `root`, who breaks out of a guest"
            " has all rights on its host.",
            min_length=1,
        ),
    ] = "libvirt-qemu"
    copy_listen: Annotated[
        str,
        Meta(
            description="Address and port at which this host gives the disks of servers that move"
            " to other hosts, as `ADDRESS:PORT`. It listens while it gives some, over TLS. Empty:"
            " the address at which it is asked, and any free port."
        ),
    ] = ""
    copy_mib_per_s: Annotated[
        int,
        Meta(description="MiB of such disks that it gives in a second, in all; 0: any.", ge=0),
    ] = 0
    agents: Annotated[
        tuple[str, ...],
        Meta(
            description="Hosts whose agents run as processes of their own, each as"
            " `NAME=/path/to/its/socket`; in the variable, separated by commas."
        ),
    ] = ()
    hosts_listen: Annotated[
        str,
        Meta(
            description="Address and port where hosts on other machines join, as `ADDRESS:PORT`"
            " ([hosts](hosts.md)); on PostgreSQL each process has its own. Empty: there are none,"
            " and those that have joined are not asked."
        ),
    ] = ""
    hosts_address: Annotated[
        str,
        Meta(
            description="How hosts reach that socket, as `ADDRESS:PORT`, when it listens on every"
            " address or something stands before it. Empty: as `hosts_listen` says."
        ),
    ] = ""
    image_count_total: Annotated[
        int, Meta(description="Most [images](image-quotas.md) that a project has; 0: any.", ge=0)
    ] = 1000
    image_size_total: Annotated[
        int, Meta(description="Most MiB of data that its images have in all; 0: any.", ge=0)
    ] = 1048576
    image_reserve_mib: Annotated[
        int, Meta(description="MiB that uploads, backups and hosts' images leave free.", ge=0)
    ] = 256
    image_count_uploading: Annotated[
        int, Meta(description="Most uploads of images that a project has at a time; 0: any.", ge=0)
    ] = 100
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The least urgent messages that reach the log, which is standard error."),
    ] = "info"
    token_lifetime_s: Annotated[
        int, Meta(description="How long a token of identity is valid, in seconds.", ge=60, le=86400)
    ] = 3600
    notifications: Annotated[
        tuple[Literal["keep", "log", "webhook", "oslo.messaging"], ...],
        Meta(
            description="Who gets notifications of what happens to volumes and servers, under"
            " OpenStack's names, as docs/notifications.md tells: `log`, `webhook`;"
            " `keep` leaves them in the databases for a week. Empty: none are written."
        ),
    ] = ()
    notifications_webhook: Annotated[
        str,
        Meta(
            description="The URL that `webhook` posts notifications to, as JSON, one request each."
            " A user and a password in it are sent as basic authentication."
        ),
    ] = ""
    extend_completion_version: Annotated[
        str,
        Meta(
            description="The compute microversion whose `volume-extended` event is answered by a"
            " completion, which a volume needs to grow while QEMU holds its file. Empty, for a"
            " real Nova: such a volume does not grow.",
            pattern=r"^(2\.[0-9]{1,4})?$",
        ),
    ] = "2.105"
    extend_deadline_s: Annotated[
        int,
        Meta(
            description="How long storage, and after it compute, may take to make a volume grow,"
            " in seconds. After it the volume goes by its file's own size.",
            ge=10,
            le=86400,
        ),
    ] = 600
    borrowed_for_s: Annotated[
        int,
        Meta(
            description="How long a client of the volume API, a real Nova say, may keep a volume"
            " `reserved`, `attaching` or `detaching` before compute is asked what became of it, in"
            " seconds. Shorter than the client takes for an attachment, it is asked in vain.",
            ge=30,
            le=600,
        ),
    ] = 600
    reimage_timeout_per_gb: Annotated[
        int,
        Meta(
            description="Seconds for each GiB of an image, after which the rebuild of a server that"
            " was told nothing looks by itself whether its root volume has the image.",
            ge=1,
            le=86400,
        ),
    ] = 20
    backup_directory: Annotated[
        str,
        Meta(
            description="The directory that [backups of volumes](backups.md) lie in, reached by"
            " every process of the control plane; it must be there. Empty: `backups` in"
            " `state_dir`, which is made, and lost together with the cloud."
        ),
    ] = ""
    backup_s3: Annotated[
        str,
        Meta(
            description="A TOML file, which its owner alone may read, with the S3 service that"
            " [backups of volumes](backups.md#in-an-s3-service) lie in instead; it must have"
            " `mooring[s3]` installed. Empty: none."
        ),
    ] = ""
    max_concurrent_live_migrations: Annotated[
        int, Meta(description="Running servers that leave a host at a time; 0: any.", ge=0, le=1000)
    ] = 1
    live_migration_timeout_s: Annotated[
        int,
        Meta(description="How many seconds one may be on its way at most.", ge=1, le=604800),
    ] = 3600
    live_migration_timeout_action: Annotated[
        Literal["abort", "force_complete"],
        Meta(description="Then it stays, or is held still, as long once more, until it is there."),
    ] = "abort"
    resize_confirm_window: Annotated[
        int,
        Meta(description="Seconds after which a resize is confirmed by itself; 0: never.", ge=0),
    ] = 0
    shelved_offload_time: Annotated[
        int,
        Meta(
            description="Seconds for which a [shelved](shelve.md) server with its root disk on its"
            " host waits there; 0: it leaves at once; -1: it stays.",
            ge=-1,
        ),
    ] = 0
    fence_command: Annotated[
        tuple[str, ...],
        Meta(
            description="The command that ends a host for certain, in words; `{host}` in them is"
            " the host's name ([how to write one](hosts.md#when-a-host-dies)). No shell reads it."
            " It may run twice. Empty: no host can be fenced; in a lab, its hosts can."
        ),
    ] = ()
    fence_timeout_s: Annotated[
        int,
        Meta(description="How many seconds that command may take; then it is ended.", ge=1, le=600),
    ] = 60
    evacuate_after_s: Annotated[
        int,
        Meta(
            description="After how many seconds of silence a host is fenced by itself, when there"
            " is a fence command and as many others answer as are silent; 0: never.",
            ge=0,
            le=86400,
        ),
    ] = 0
    force_config_drive: Annotated[
        bool, Meta(description="Whether every new server has a [config drive](config-drive.md).")
    ] = False
    deleted_servers_days: Annotated[
        int,
        Meta(
            description="For how many days administrators see deleted servers, and usage counts"
            " them; then nothing is known of them any more.",
            ge=1,
            le=36500,
        ),
    ] = 90
    console_token_s: Annotated[
        int,
        Meta(
            description="For how many seconds the URL of a [serial console](serial-console.md) is"
            " good.",
            ge=10,
            le=86400,
        ),
    ] = 600
    kill_at: Annotated[
        str,
        Meta(
            description="For the kill harness only: probe points, with commas between. At the N-th"
            " passing of `POINT@N` this process ends itself with SIGKILL; at each passing of"
            " `!POINT` the step fails. Empty: never."
        ),
    ] = ""

    @property
    def state_path(self) -> Path:
        """The state directory, absolute."""
        path = Path(self.state_dir or "~/.local/state/mooring").expanduser().absolute()
        # Into root's home the user whom guests run as does not get.
        is_homeless = not (self.state_dir or os.geteuid() or path.is_dir())
        return Path("/var/lib/mooring") if is_homeless else path

    @property
    def address(self) -> str:
        """The address to bind, without brackets."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port to bind; 0 for any free one."""
        return int(self.listen.rpartition(":")[2])


def load(
    file: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the settings that file, environment and command line give together.

    The environment is the process's own, unless given; an override that is None was not given.
    Raises Invalid, naming key and place, when something is unknown or does not fit.
    """
    variables = os.environ if environment is None else environment
    if file is None and variables.get(FILE_VARIABLE):
        file = Path(variables[FILE_VARIABLE]).expanduser()
    values: dict[str, Any] = {}
    if file is not None:
        values |= _checked(toml_file.read(file, "settings file"), f"the file {file}", strict=True)
    values |= _checked(_from_variables(variables), "the environment", strict=False)
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    values |= _checked(given, "the command line", strict=True)
    settings = Settings(**values)
    config_checks.check(settings)
    return settings


def environment_for(**settings: str) -> dict[str, str]:
    """Return an environment for a process of ours: this one's, with these settings alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return kept | {f"{PREFIX}{name.upper()}": value for name, value in settings.items()}


def _from_variables(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(PREFIX).lower(): value
        for name, value in variables.items()
        if name.startswith(PREFIX) and name != FILE_VARIABLE
    }


def _checked(values: Mapping[str, Any], place: str, *, strict: bool) -> dict[str, Any]:
    """Return the values with their types. `strict` is off for text that stands for a number."""
    hints = get_type_hints(Settings, include_extras=True)
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if key not in hints:
            near = difflib.get_close_matches(key, hints, n=1)
            hint = f" Did you mean {near[0]}?" if near else " docs/configuration.md lists them all."
            raise Invalid(f"There is no setting {key}, which {place} gives.{hint}")
        is_text_list = not strict and get_origin(get_type_hints(Settings)[key]) is tuple
        given = [part for part in value.split(",") if part] if is_text_list else value
        try:
            checked[key] = typed.convert(given, hints[key], strict=strict)
        except msgspec.ValidationError as error:
            raise Invalid(f"The setting {key} in {place} does not fit: {error}.") from error
    return checked
