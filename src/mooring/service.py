"""What a service says of itself, so that whoever builds a cloud opens and serves it by that alone.

A new service is a folder with a declaration in its `app.py`, and one line in `mooring.services`.
Its tables stand in `mooring.<name>.tables`, their revisions in `store/migrations/<name>`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.agent_api.client import Agents
from mooring.clients.session import Session as Neighbour
from mooring.clients.token import TokenValidator
from mooring.clock import Clock
from mooring.config import Settings
from mooring.errors import Unavailable
from mooring.fence import growth as fence_growth
from mooring.host_fence import HostFence
from mooring.notify import growth as outbox_growth
from mooring.notify.outbox import Outbox
from mooring.probe import Probe
from mooring.saga import growth as saga_growth
from mooring.saga.engine import Engine
from mooring.saga.seal import Sealer
from mooring.store.base import Store
from mooring.store.growth import Bound
from mooring.web.api import Api
from mooring.web.app import End, Served, build_app
from mooring.web.face import Face
from mooring.web.policy import Policy
from mooring.web.request_times import RequestTimes

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mooring.web.audit import AuditLog


COMMON_BOUNDS: tuple[Bound[Any], ...] = (
    *saga_growth.BOUNDS,
    *fence_growth.BOUNDS,
    *outbox_growth.BOUNDS,
)
"""Of the tables that every database has."""

S = TypeVar("S", bound=Served)
S_contra = TypeVar("S_contra", bound=Served, contravariant=True)


class Surroundings(Struct, frozen=True, kw_only=True):
    """What a service is opened in. `owner` names this process among others on its database."""

    settings: Settings
    store: Store
    clock: Clock
    probe: Probe
    owner: str
    agents: Agents
    sealer: Sealer
    outbox: Outbox
    host_fence: HostFence
    neighbour: Callable[[str], Neighbour]
    """Gives the way to another service, as this one's own user, by our word for that service."""


class HostUses(Protocol):
    """Reads what a service has on a host, each as `3 servers`; of one that is gone no debts."""

    def __call__(self, tx: Session, host: str, /, *, gone: bool) -> list[str]: ...


class ForgetHost(Protocol[S_contra]):
    """Forgets a host that is taken out, and what it owes if it is gone for good.

    `heard` is when the service had heard of the host last before it was seen to be leaving; None
    for never. Raises Conflict while the service has something there, and as `require_unheard`.
    """

    def __call__(
        self, service: S_contra, host: str, /, *, gone: bool, heard: datetime | None
    ) -> Awaitable[None]: ...


def require_unheard(host: str, seen_at: datetime | None, heard: datetime | None) -> None:
    """Raise Unavailable for a host that was heard of since: it has joined anew, or goes on.

    Nobody asks one that is leaving. Of a host that is not known, `seen_at` is None: it is forgotten
    already.
    """
    if seen_at not in {None, heard}:
        raise Unavailable(
            f"Host {host} was heard of while it was taken out. Nothing of that was forgotten; look "
            "whether it has joined anew, and ask again."
        )


class Loop(Struct, Generic[S], frozen=True):
    """What a service does on its own account, again and again."""

    run: Callable[[S], Awaitable[None]]
    """Does it until cancelled."""
    once: Callable[[S], Awaitable[None]] | None = None
    """Does it now, for a doctor who mends."""
    is_first_look: bool = False
    """Whether the cloud is ready only when it was done once."""


Page: TypeAlias = "Callable[[Session], dict[str, dict[str, Any]]]"
"""Reads rows that the doctor looks at, as plain dictionaries, by what it knows each one by."""

Kept: TypeAlias = "Callable[[Settings], Awaitable[dict[str, dict[str, Any]]]]"
"""Looks at what a service keeps beside its tables, by what the doctor knows each thing by."""


def rows_of(table: type[Any], *conditions: Any, key: str = "id") -> Page:
    """Return the page of a table's rows that meet the conditions, by their column `key`."""
    query = select(*table.__table__.columns).where(*conditions)

    def load(tx: Session) -> dict[str, dict[str, Any]]:
        return {str(row[key]): dict(row) for row in tx.execute(query).mappings()}

    return load


async def _nothing(service: Any) -> None:
    """Prepare a service that needs nothing."""


class Service(Struct, Generic[S], frozen=True, kw_only=True):
    """One service. Its `name` is that of its folder, its database and its path prefix."""

    name: str
    kind: str
    """Its type in the catalogue."""
    entry: str
    """Where the catalogue says it is, below the public URL."""
    face: Face
    apis: tuple[Api[S], ...]
    rules: Mapping[str, str]
    """Its policy: upstream's names of the rules, and their defaults."""
    open: Callable[[Surroundings], S]
    prepare: Callable[[S], Awaitable[None]] = _nothing
    """Writes down what the service has from its first start on, and ends what a dead predecessor
    left. Repeatable."""
    bounds: tuple[Bound[S], ...]
    """What keeps each of its own tables from growing without end."""
    loops: tuple[Loop[S], ...] = ()
    take_sagas: Callable[[S, Engine[S]], None] | None = None
    """Gives the service the engine that runs its sagas; None when it has none."""
    end_buried: Callable[[S], End] | None = None
    """Gives what ends the work for something that a buried operation made."""
    notifies: bool = False
    """Whether it writes notifications."""
    sockets: Mapping[str, Callable[[S, str, AuditLog], ASGIApp]] = {}
    """What it serves by websocket, by path: made of the service, the public URL and the log."""
    hosts_seen: Callable[[Session], Mapping[str, datetime]] | None = None
    """Reads when each host has answered it last, by the host's name."""
    host_uses: HostUses | None = None
    """None for a service that has nothing on hosts."""
    forget_host: ForgetHost[S] | None = None
    pages: Mapping[str, Page] = {}
    """What the doctor reads of its tables, by the name under which the doctor's books have it."""

    keeps: Mapping[str, Kept] = {}
    """What the doctor sees of what it keeps beside its tables, likewise, read after them."""

    def build(
        self,
        service: S,
        *,
        validator: TokenValidator,
        public_url: str,
        identity_url: str = "",
        face: Face | None = None,
        times: RequestTimes | None = None,
        audit: AuditLog | None = None,
    ) -> ASGIApp:
        """Return the application, to be mounted at the path of `public_url` (`http://host/volume`).

        `face` is another than the service's own, for one that is capped; `times` counts requests,
        and `audit` is told of them.
        """
        return build_app(
            service,
            self.apis,
            face=face or self.face,
            validator=validator,
            policy=Policy(self.rules),
            public_url=public_url,
            identity_url=identity_url,
            end=self.end_buried(service) if self.end_buried else None,
            times=times,
            audit=audit,
        )
