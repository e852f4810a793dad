"""The command line."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import click

from mooring.command_line import Option, ask, on, operation_argument, run, state_dir_option
from mooring.host_cli import host

_config = click.option(
    "--config", "file", type=click.Path(path_type=Path), help="A TOML file with settings."
)
_listen = click.option("--listen", metavar="ADDR:PORT", help="Where to serve [127.0.0.1:8470].")
_hypervisor = click.option(
    "--hypervisor",
    type=click.Choice(["auto", "libvirt", "simulated"]),
    help="What runs the servers [auto: libvirt where it works].",
)
_agent = click.option(
    "--agent", "agents", multiple=True, metavar="NAME=SOCKET", help="A host with its own agent."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mooring")
def cli() -> None:
    """Run an OpenStack-compatible cloud in which every operation ends."""


@cli.command()
@_config
@state_dir_option
@_listen
@_agent
@_hypervisor
@click.option(
    "--hosts",
    type=int,
    help="How many hosts to make of this machine: simulated, or with libvirt, as root, real [1].",
)
def up(file: Path | None, **given: Option) -> None:
    """Run everything on this machine, and say `ready URL` when it answers.

    DIR/clouds.yaml then has the clouds `mooring` (administrator) and `demo` (a member of the
    project demo): OS_CLIENT_CONFIG_FILE=DIR/clouds.yaml openstack --os-cloud demo server list
    """
    from mooring.up import run_up

    run(lambda settings: run_up(settings, _say), file, given)


@cli.command()
@_config
@state_dir_option
@_listen
@_agent
@click.option("--database", help="postgresql://..., for several processes.")
def serve(file: Path | None, **given: Option) -> None:
    """Run the control plane alone. On PostgreSQL start as many as you like.

    All of them have one public_url, one seal.key in their state directories, the first one's, and
    one directory of images. What else they must have in common is in the database.
    """
    from mooring.up import run_serve

    run(lambda settings: run_serve(settings, _say), file, given)


@cli.command()
@_config
@state_dir_option
@click.option("--join", "token", default="", help="A token of `mooring host add`, to join a cloud.")
@click.option(
    "--address",
    "listen",
    metavar="ADDR:PORT",
    default="",
    help="Where a host that joins listens [every address, port 8471; then as when it joined].",
)
@click.option("--name", default="", help="With --socket: the host's name, for the control plane.")
@click.option(
    "--socket",
    "socket_path",
    type=click.Path(path_type=Path),
    help="Serve the control plane of this machine by a Unix socket, which does not exist yet.",
)
@click.option(
    "--role",
    type=click.Choice(["compute", "volume", "share", "both", "all"]),
    help="With --socket: run servers, keep volumes, give shares; the first two [both], or all.",
)
@_hypervisor
def agent(
    file: Path | None,
    token: str,
    listen: str,
    name: str,
    socket_path: Path | None,
    *,
    role: str | None,
    **given: Option,
) -> None:
    """Run one host's agent.

    On another machine than the control plane's: once with --join, from then on without. Beside the
    control plane: with --name and --socket, on a Unix socket that only this user may use.
    """
    from mooring.agent_process import ROLES, Way, run_agent

    roles = ROLES[role] if role else ()
    way = Way(name=name, socket_path=socket_path, token=token, listen=listen, roles=roles)
    run(lambda settings: run_agent(settings, way, _say), file, given)


cli.add_command(host)


@cli.group()
def operations() -> None:
    """See what the cloud is doing, and have a word in it."""


@operations.command("list")
@state_dir_option
@click.option("--all", "everything", is_flag=True, help="Also those that have ended.")
def list_operations(state_dir: str | None, *, everything: bool) -> None:
    """List operations, newest first."""
    from mooring import operator_tools

    ask(state_dir, lambda cloud: operator_tools.list_operations(cloud, everything=everything))


@operations.command("show")
@state_dir_option
@operation_argument
def show_operation(state_dir: str | None, operation_id: str) -> None:
    """Show an operation with its timeline."""
    from mooring import operator_tools

    ask(state_dir, lambda cloud: operator_tools.show_operation(cloud, operation_id))


@operations.command("watch")
@state_dir_option
@operation_argument
def watch_operation(state_dir: str | None, operation_id: str) -> None:
    """Follow an operation until it ends; exit 0 when it was done."""
    from mooring import operator_tools

    ask(state_dir, lambda cloud: operator_tools.watch_operation(cloud, operation_id))


@operations.command("abort")
@state_dir_option
@operation_argument
def abort_operation(state_dir: str | None, operation_id: str) -> None:
    """Have an operation undone.

    One that is past its point of return goes on: without a step that keeps failing and may be left
    out, such as asking a host that is gone for good.
    """
    from mooring import operator_tools

    ask(state_dir, lambda cloud: operator_tools.act(cloud, operation_id, "abort"))


@operations.command("retry")
@state_dir_option
@operation_argument
def retry_operation(state_dir: str | None, operation_id: str) -> None:
    """Have a waiting operation go on now."""
    from mooring import operator_tools

    ask(state_dir, lambda cloud: operator_tools.act(cloud, operation_id, "retry"))


@cli.group()
def token() -> None:
    """End the tokens of a running cloud, or have them made with other keys."""


@token.command("revoke-all")
@state_dir_option
def revoke_all_tokens(state_dir: str | None) -> None:
    """End every token of every user, at once and in every process.

    Whoever has a password logs in again. Operations in flight that need a user's token fail.
    """
    from mooring import operator_tools

    on(state_dir, operator_tools.revoke_all_tokens)


@token.command("rotate-keys")
@state_dir_option
def rotate_token_keys(state_dir: str | None) -> None:
    """Make tokens with a new key; those that there are stand, through two rotations at least."""
    from mooring import operator_tools

    on(state_dir, operator_tools.rotate_token_keys)


@cli.command()
@_config
@state_dir_option
@_agent
@click.option("--database", help="postgresql://..., when the cloud is kept there.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--fix", is_flag=True, help="Have the running cloud mend what it can.")
def doctor(file: Path | None, *, as_json: bool, fix: bool, **given: Option) -> None:
    """Compare databases, hypervisors, storage and quotas. Exit 0 when all agree."""
    from mooring.doctor_command import run_doctor

    run(lambda settings: run_doctor(settings, as_json=as_json, fix=fix), file, given)


@cli.command()
@_config
@state_dir_option
@click.option("--database", help="postgresql://..., when the cloud is kept there.")
@click.argument("directory", type=click.Path(path_type=Path))
def backup(file: Path | None, directory: Path, **given: Option) -> None:
    """Copy the state of a cloud, running or not, into a new DIRECTORY.

    Databases, keys and images are as at one moment, and a cloud starts with the copy. Disks of
    servers and volumes are not in it (docs/backup.md).
    """
    from mooring.backup import run_backup

    run(lambda settings: run_backup(settings, directory, _say), file, given)


@cli.group()
def db() -> None:
    """Look after the databases of a cloud that does not run."""


@db.command("upgrade")
@_config
@state_dir_option
@click.option("--database", help="postgresql://..., when the cloud is kept there.")
def upgrade_db(file: Path | None, **given: Option) -> None:
    """Bring every service's database to this release. Starting the cloud does it too."""
    from mooring.databases import upgrade

    run(lambda settings: upgrade(settings, _say), file, given)


@db.command("check")
@_config
@state_dir_option
@click.option("--database", help="postgresql://..., when the cloud is kept there.")
def check_db(file: Path | None, **given: Option) -> None:
    """Say which revision every service's database has; exit 1 when one is not this release's."""
    from mooring.databases import check

    run(lambda settings: check(settings, _say), file, given)


@db.command("restore-admin")
@_config
@state_dir_option
@click.option("--database", help="postgresql://..., when the cloud is kept there.")
def restore_admin(file: Path | None, **given: Option) -> None:
    """Make the user admin an administrator again, with a new password.

    For a cloud whose administrators are lost: deleted, renamed, disabled or without their password.
    """
    from mooring.admin_command import restore_admin

    run(lambda settings: restore_admin(settings, _say), file, given)


def _say(line: str) -> None:
    # A disk without room behind standard output ends no cloud.
    with suppress(OSError):
        click.echo(line)
        sys.stdout.flush()


if __name__ == "__main__":
    cli()
