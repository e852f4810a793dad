"""Which hosts will not do for a server, and why, in words for its fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.compute.aggregates import membership
from mooring.compute.hosts import hosts
from mooring.compute.scheduling import mounting, reach

if TYPE_CHECKING:
    from mooring.compute.groups.affinity import Standing
    from mooring.compute.scheduling.company import Company
    from mooring.compute.scheduling.needs import Needs
    from mooring.compute.tables import Host

NO_HOST = "No valid host was found."
_AMOUNTS = {"VCPU": "{} VCPU", "MEMORY_MB": "{} MiB of memory", "DISK_GB": "{} GiB of disk"}


class View(Struct, frozen=True):
    """What is known of the cloud while one host is chosen."""

    now: datetime
    down_after_s: float
    shown_down_after_s: float
    group: Standing | None = None
    company: Company | None = None
    aggregates: Mapping[str, Sequence[Mapping[str, str]]] = {}
    """The metadata of the aggregates that each host is in."""


def refusal(host: Host, needs: Needs, view: View) -> str:
    """Return why a host will not do, whatever room it has; "" when it may.

    It reads behind a number of hosts: "2 disabled".
    """
    checks = (
        (
            needs.host not in {None, host.name},
            f"other than {needs.host}, which was asked for",
        ),
        (host.name == needs.leaving, "where the server is"),
        (host.name in needs.tried, "tried already"),
        (host.forced_down, "forced down"),
        (not hosts.is_up(host, view.now, view.down_after_s), "not answering"),
        (needs.host is None and host.disabled, "disabled"),
        (needs.zone not in {None, host.zone}, f"outside of zone {needs.zone}"),
        (needs.hypervisor not in {"", host.hypervisor}, f"without {needs.hypervisor}"),
        (host.name in needs.letting_go, "still letting go of its shares"),
    )
    words = next((words for speaks_against, words in checks if speaks_against), "")
    words = words or reach.refusal(needs.reach, host.name) or mounting.refusal(needs.mounts, host)
    if not words:
        among = view.aggregates.get(host.name, ())
        words = membership.refusal(among, needs.specs, needs.project_id)
    words = words or (view.company.refusal(host.name) if view.company else "")
    return words or (view.group.refusal(host.name) if view.group else "")


def lack_of_room(needs: Needs, lacking: Collection[str]) -> str:
    """Return in words that a host has no room for some of the resources; all when none is known."""
    short = [name for name in needs.resources if name in lacking] or list(needs.resources)
    amounts = (_AMOUNTS.get(name, f"{{}} {name}").format(needs.resources[name]) for name in short)
    return f"without room for {' and '.join(amounts)}"


def lack_of_traits(needs: Needs) -> str:
    """Return in words that a host cannot do what it must."""
    return f"not fit for {', '.join(needs.traits)}"


def explain(reasons: Mapping[str, str]) -> str:
    """Return the public message of a search that found no host, of the reason against each.

    "No valid host was found. 3 hosts: 1 disabled, 2 without room for 2 VCPU."
    """
    counted = Counter(reasons.values())
    if not counted:
        return f"{NO_HOST} There is no host."
    total = counted.total()
    parts = ", ".join(f"{count} {reason}" for reason, count in counted.most_common())
    return f"{NO_HOST} {total} {'host' if total == 1 else 'hosts'}: {parts}."
