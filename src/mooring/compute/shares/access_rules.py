"""Access rules of shares, as this service makes them and finds them again.

Source: facts/shared_file_systems.md 4, 6.4 and 6.6.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING, TypeVar

from mooring.errors import Invalid, NotFound, Unavailable
from mooring.limits import COMPUTE_SHARE_FIRST_POLL_S, COMPUTE_SHARE_POLL_S
from mooring.saga.define import look_again_s

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection

    from mooring.clients.share import LockedRule, Rule
    from mooring.compute.service import Compute
    from mooring.saga.define import Run

T = TypeVar("T")
CEPHFS = "CEPHFS"
PROTOCOLS = {"NFS": "ip", CEPHFS: "cephx"}
"""The protocols that hosts mount, and the type of their rules."""
MARK = {"made_by": "mooring-compute"}
"""The metadata of rules that this service has made."""
REASON = "A server has this share."
"""Why such a rule is locked."""
LEAVING = frozenset({"queued_to_deny", "denying"})
"""The states of a rule that is being denied."""


async def find(run: Run[Compute], share_id: str, protocol: str, client: str) -> Rule | None:
    """Return the rule of one client, whoever made it. Raises NotFound when the share is gone."""
    rules = await run.service.shares.access_rules(None, share_id)
    return next((rule for rule in rules if _is_of(rule, protocol, client)), None)


async def find_by_id(run: Run[Compute], rule_id: str) -> LockedRule | None:
    """Return a rule, None when it is gone."""
    try:
        return await run.service.shares.access_rule(None, rule_id)
    except NotFound:
        return None


def is_marked(rule: Rule | LockedRule) -> bool:
    """Whether a rule says that this service has made it, which its users may change."""
    return MARK.items() <= rule.metadata.items()


def is_of_hosts(rule: LockedRule, addresses: Collection[str]) -> bool:
    """Whether a rule that this service's project has locked lets in hosts with these addresses.

    Another cloud may have its compute service in the same project.
    """
    return rule.access_type == PROTOCOLS[CEPHFS] or rule.access_to in addresses


async def unless_changing(run: Run[Compute], share_id: str, asking: Awaitable[T]) -> T:
    """Ask about a rule. Raises Unavailable for a share that is being changed: it answers later."""
    try:
        return await asking
    except Invalid as error:
        share = await run.service.shares.show(None, share_id)
        if not share.is_changing:
            raise
        raise Unavailable(
            f"Share {share_id} is {share.status}; its access rules wait for that.",
            private=error.public,
        ) from error


def pause_s(run: Run[Compute]) -> float:
    """Return how long to rest before the next look at a rule: most are made, or gone, at once."""
    return look_again_s(run, COMPUTE_SHARE_FIRST_POLL_S, COMPUTE_SHARE_POLL_S)


def _is_of(rule: Rule, protocol: str, client: str) -> bool:
    if rule.access_type != PROTOCOLS[protocol]:
        return False
    if rule.access_type != "ip":
        return rule.access_to == client
    try:
        return ip_network(rule.access_to) == ip_network(client)
    except ValueError:
        return False
