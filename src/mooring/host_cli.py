"""The commands of `mooring host`."""

from __future__ import annotations

import click

from mooring.command_line import host_argument, on, state_dir_option


@click.group()
def host() -> None:
    """Let hosts on other machines join, and see them (docs/hosts.md)."""


@host.command("add")
@state_dir_option
@host_argument
@click.option(
    "--role",
    type=click.Choice(["compute", "volume", "share", "both", "all"]),
    default="both",
    show_default=True,
    help="What the host does: run servers, keep volumes, give shares; the first two, or all.",
)
def add_host(state_dir: str | None, name: str, role: str) -> None:
    """Print a token with which one host may join, once and within an hour.

    Asked again before the host has joined, it prints another one, and the first is void.
    """
    from mooring import host_command

    on(state_dir, lambda settings: host_command.add_host(settings, name, role))


@host.command("list")
@state_dir_option
def list_hosts(state_dir: str | None) -> None:
    """List the hosts on other machines, those that were invited, and those beside this cloud."""
    from mooring import host_command

    on(state_dir, host_command.list_hosts)


@host.command("show")
@state_dir_option
@host_argument
def show_host(state_dir: str | None, name: str) -> None:
    """Show one host."""
    from mooring import host_command

    on(state_dir, lambda settings: host_command.show_host(settings, name))


@host.command("remove")
@state_dir_option
@click.option("--gone", is_flag=True, help="Its machine never runs again: strike what it owes.")
@host_argument
def remove_host(state_dir: str | None, *, gone: bool, name: str) -> None:
    """Take a host out of the cloud, or withdraw its invitation.

    Refused while it has servers, volumes or debts. Its certificate is worth nothing from then on,
    and to come back it needs a new token. --gone asks for a host that is forced down and silent.
    """
    from mooring import host_command

    on(state_dir, lambda settings: host_command.remove_host(settings, name, gone=gone))


@host.command("renew")
@state_dir_option
@host_argument
def renew_host(state_dir: str | None, name: str) -> None:
    """Have a host make a new key and be certified for it, without a restart.

    The cloud does so by itself a month before a certificate ends.
    """
    from mooring import host_command

    on(state_dir, lambda settings: host_command.renew_host(settings, name))


@host.command("drain")
@state_dir_option
@host_argument
@click.option("--status", "only_look", is_flag=True, help="Only show how far it is.")
def drain_host(state_dir: str | None, name: str, *, only_look: bool) -> None:
    """Keep new servers from a host, move those that it has away, and follow that to its end.

    It goes on when this command is interrupted. Exit 1 when servers stay, each with the
    reason, and with --status also while some are on the way.
    """
    from mooring import host_command

    on(state_dir, lambda settings: host_command.drain_host(settings, name, only_look=only_look))


@host.command("evacuate")
@state_dir_option
@host_argument
@click.option("--status", "only_look", is_flag=True, help="Only show how far it is.")
def evacuate_host(state_dir: str | None, name: str, *, only_look: bool) -> None:
    """Give all servers of a dead host to others, and follow that to its end.

    The host has to be fenced or forced down. Servers that ran run again, those of one
    group one after the other. It goes on when this command is interrupted. Exit 1 when
    any stays or is in ERROR elsewhere, and with --status also while some are on the way.
    """
    from mooring import host_command

    on(state_dir, lambda settings: host_command.evacuate_host(settings, name, only_look=only_look))


@host.command("fence")
@state_dir_option
@host_argument
@click.option("--force", is_flag=True, help="Also a host that answers, with guests that run.")
@click.option("--wait", is_flag=True, help="Follow a fence that takes long to its end.")
@click.option("--status", "only_look", is_flag=True, help="Only show how it went.")
def fence_host(
    state_dir: str | None, name: str, *, force: bool, wait: bool, only_look: bool
) -> None:
    """Have the fence command end a host, and force it down once that is certain.

    It may be asked again for one that is down already. Exit 0 only when it is certain. A fence that
    fails changes nothing; one that goes on does so when this command is interrupted.
    """
    from mooring import host_command

    if only_look:
        on(state_dir, lambda settings: host_command.show_fence(settings, name))
        return
    how = {"force": force, "wait": wait}
    on(state_dir, lambda settings: host_command.fence_host(settings, name, **how))


@host.command("enable")
@state_dir_option
@host_argument
def enable_host(state_dir: str | None, name: str) -> None:
    """Let a host have servers again, and end its draining."""
    from mooring import host_command

    on(state_dir, lambda settings: host_command.enable_host(settings, name))
