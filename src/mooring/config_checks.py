"""Settings that do not fit together, or that say what cannot be; each check raises Invalid."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING

from mooring import sockets
from mooring.errors import Invalid
from mooring.host_fence import HOST

if TYPE_CHECKING:
    from mooring.config import Settings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}")
LEAST_SILENCE_S = 60
"""A host that is silent for less is not down yet: what is asked of it waits for it."""


def check(settings: Settings) -> None:
    """Raise Invalid, naming the setting and what to give it, unless all of them make sense."""
    _check_addresses(settings)
    _check_tls(settings)
    _check_agents(settings)
    _check_hosts(settings)
    _check_notifications(settings)
    _check_fence(settings)
    if settings.backup_directory and settings.backup_s3:
        raise Invalid(
            "The settings backup_directory and backup_s3 name two stores for backups: give one."
        )


def _check_fence(settings: Settings) -> None:
    words = settings.fence_command
    if words and not any(HOST in word for word in words):
        raise Invalid(
            "The setting fence_command does not say which host to fence: one of its words has to "
            "have {host} in it, which stands for the host's name."
        )
    if words and (not words[0] or HOST in words[0]):
        raise Invalid("The setting fence_command has to begin with the name of a program.")
    if 0 < settings.evacuate_after_s < LEAST_SILENCE_S:
        raise Invalid(
            f"The setting evacuate_after_s is {settings.evacuate_after_s}, and a host is down only "
            f"after {LEAST_SILENCE_S} s. Give it {LEAST_SILENCE_S} or more, or 0 for never."
        )


def _check_address(name: str, value: str, *, listens: bool = True) -> None:
    host, colon, port = value.rpartition(":")
    bare = host.strip("[]")
    is_number = port.isascii() and port.isdigit()
    if not (colon and bare and is_number and (not listens) <= int(port) <= sockets.LAST_PORT):
        ports = sockets.LISTENING_PORTS if listens else sockets.PORTS
        raise Invalid(f"The setting {name} must be ADDRESS:PORT, and is {value}. {ports}.")
    if ":" in bare and host != f"[{bare}]":
        raise Invalid(f"The setting {name} takes an IPv6 address in brackets, as in [::1]:8470.")


def _check_tls(settings: Settings) -> None:
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise Invalid("The settings tls_certificate and tls_key go together: give both, or none.")
    if settings.tls_authority and not (settings.tls_certificate or settings.public_url):
        raise Invalid(
            "The setting tls_authority is for a socket or a public_url with TLS: give one."
        )
    if settings.tls_certificate and settings.public_url.startswith("http://"):
        raise Invalid(
            "The setting public_url begins with http://, and with tls_certificate the socket speaks"
            " TLS alone: begin it with https://."
        )


def _check_agents(settings: Settings) -> None:
    for entry in settings.agents:
        name, equals, path = entry.partition("=")
        if not equals or not _NAME.fullmatch(name) or not path.startswith("/"):
            raise Invalid(
                f"The setting agents has '{entry}', which is no agent; write "
                "NAME=/path/to/its/socket."
            )


def _check_hosts(settings: Settings) -> None:
    if settings.hosts_address and not settings.hosts_listen:
        raise Invalid("The setting hosts_address needs hosts_listen: hosts join there.")
    if not settings.hosts_listen:
        return
    _check_address("hosts_listen", settings.hosts_listen)
    if settings.hosts_address:
        _check_address("hosts_address", settings.hosts_address, listens=False)
    elif _is_everywhere(settings.hosts_listen):
        raise Invalid(
            "The setting hosts_listen is every address. Say in hosts_address under which one hosts "
            "reach it, as ADDRESS:PORT."
        )


def _is_everywhere(listen: str) -> bool:
    try:
        return ip_address(listen.rpartition(":")[0].strip("[]")).is_unspecified
    except ValueError:
        return False


def _check_addresses(settings: Settings) -> None:
    _check_address("listen", settings.listen)
    if settings.copy_listen:
        _check_address("copy_listen", settings.copy_listen)
    if settings.public_url and not settings.public_url.startswith(("http://", "https://")):
        raise Invalid("The setting public_url must begin with http:// or https://.")
    if settings.database and not settings.database.startswith("postgresql://"):
        raise Invalid("The setting database must be empty or begin with postgresql://.")


def _check_notifications(settings: Settings) -> None:
    url = settings.notifications_webhook
    if url and not url.startswith(("http://", "https://")):
        raise Invalid("The setting notifications_webhook must begin with http:// or https://.")
    if "webhook" in settings.notifications and not url:
        raise Invalid(
            "The setting notifications names webhook, and notifications_webhook is empty: give the"
            " URL to post them to."
        )
    if "oslo.messaging" in settings.notifications:
        raise Invalid(
            "The setting notifications names oslo.messaging, which this release does not speak, as"
            " its failures cannot be told. Use webhook, and a receiver that publishes on your bus."
        )
