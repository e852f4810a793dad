"""The identity service, as its callers see it: ours, or a real Keystone.

Source: facts/identity_image_placement.md 2 and 3.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
from msgspec import Struct

from mooring import limits, typed
from mooring.clients import catalog
from mooring.clients.refusals import refusal
from mooring.clients.token import TokenInfo
from mooring.errors import NotFound, Unauthenticated, Unavailable
from mooring.neighbour import NoAnswer, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mooring.clients.transport import Network
    from mooring.clock import Clock

log = structlog.get_logger()
INVALID = "The request you have made requires authentication."


class Domain(Struct, frozen=True):
    """A domain, as a token names it."""

    id: str


class Named(Struct, frozen=True):
    """A user, project or role, as a token names it."""

    id: str
    name: str
    domain: Domain = Domain("default")


class Token(Struct, frozen=True):
    """The body of a token. Source: facts/identity_image_placement.md 2.2."""

    user: Named
    expires_at: datetime
    issued_at: datetime | None = None
    methods: list[str] = []
    audit_ids: list[str] = []
    project: Named | None = None
    domain: Domain | None = None
    system: dict[str, Any] | None = None
    roles: list[Named] = []
    catalog: list[catalog.Entry] = []
    application_credential: dict[str, Any] | None = None

    def info(self) -> TokenInfo:
        """Return what the token says, in one flat record."""
        project = self.project or Named("", "", Domain(""))
        return TokenInfo(
            user_id=self.user.id,
            user_name=self.user.name,
            user_domain_id=self.user.domain.id,
            project_id=project.id,
            project_name=project.name,
            project_domain_id=project.domain.id,
            domain_id=self.domain.id if self.domain else "",
            system_scope="all" if self.system else "",
            roles=frozenset(role.name.lower() for role in self.roles),
            methods=tuple(self.methods),
            audit_ids=tuple(self.audit_ids),
            application_credential_id=(self.application_credential or {}).get("id", ""),
            issued_at=self.issued_at,
            expires_at=self.expires_at,
        )


class _Body(Struct, frozen=True):
    token: Token


class _Catalog(Struct, frozen=True):
    catalog: list[catalog.Entry]


class Login(Struct, frozen=True, kw_only=True):
    """A user's name and password, and the project to work in."""

    user_name: str
    password: str
    project_name: str
    user_domain_id: str = "default"
    project_domain_id: str = "default"

    def body(self) -> dict[str, Any]:
        """Return the body that asks for a token."""
        user: dict[str, Any] = {
            "name": self.user_name,
            "domain": {"id": self.user_domain_id},
            "password": self.password,
        }
        project = {"name": self.project_name, "domain": {"id": self.project_domain_id}}
        return {
            "auth": {
                "identity": {"methods": ["password"], "password": {"user": user}},
                "scope": {"project": project},
            }
        }


class ServiceUser:
    """Our own user: its token, always with some life left, and the catalogue of the present.

    `url` is the versioned root of identity (`.../identity/v3`). A token is used until 80 % of its
    life are over, so what is sent with it has time to be done. The catalogue is asked for again
    when `revision` has changed, which tells of changes by this process, or after a few seconds.
    """

    def __init__(
        self,
        network: Network,
        url: str,
        login: Login,
        *,
        clock: Clock,
        revision: Callable[[], int] = lambda: 0,
    ) -> None:
        self._network, self._url, self._login, self._clock = network, url, login, clock
        self._revision, self._known_revision, self._look_again_at = revision, 0, 0.0
        self._entries: list[catalog.Entry] = []
        self._token = ""
        self._renew_at = 0.0
        self._body: Token | None = None
        self._turn = asyncio.Lock()

    async def token(self, *, instead_of: str = "") -> str:
        """Return a token that is not `instead_of`. Raises Unavailable when identity gives none."""
        async with self._turn:
            if self._token in ("", instead_of) or self._clock.monotonic() >= self._renew_at:
                await self._renew()
            return self._token

    async def user_id(self) -> str:
        """Return the user's id. Raises Unavailable when identity gives no token."""
        await self.token()
        return self._body.user.id if self._body else ""

    async def url(self, service: str, *, interface: str = "internal", region: str = "") -> str:
        """Return a service's versioned root from the catalogue. Raises Unavailable."""
        entries = await self._present()
        return catalog.find(entries, service, interface=interface, region=region)

    async def ids(self, service: str) -> list[str]:
        """Return the ids that a service has in the catalogue. Raises Unavailable."""
        return catalog.ids(await self._present(), service)

    async def _present(self) -> list[catalog.Entry]:
        token = await self.token()
        async with self._turn:
            if self._is_old():
                await self._look_again(token)
            return self._entries

    def _is_old(self) -> bool:
        is_other = self._revision() != self._known_revision
        return is_other or self._clock.monotonic() >= self._look_again_at

    async def _look_again(self, token: str) -> None:
        """Ask for the catalogue; one that cannot be had just now stays as it was."""
        revision = self._revision()
        headers = {"X-Auth-Token": token}
        try:
            answer = await ask(self._network, "GET", f"{self._url}/auth/catalog", headers)
        except (Unavailable, Unauthenticated) as error:
            log.warning("the catalogue could not be read again", reason=str(error))
            self._look_again_at = self._clock.monotonic() + limits.IDENTITY_CACHE_S
            return
        self._keep(typed.decode(answer.content, _Catalog).catalog, revision)

    def _keep(self, entries: list[catalog.Entry], revision: int) -> None:
        self._entries, self._known_revision = entries, revision
        self._look_again_at = self._clock.monotonic() + limits.IDENTITY_CACHE_S

    async def _renew(self) -> None:
        content, revision = msgspec.json.encode(self._login.body()), self._revision()
        headers = {"Content-Type": "application/json"}
        try:
            answer = await ask(
                self._network, "POST", f"{self._url}/auth/tokens", headers, content=content
            )
        except Unauthenticated as error:
            raise Unavailable(
                "The identity service does not accept our service user.",
                private=f"{self._login.user_name}: {error}",
            ) from error
        self._token = answer.headers["x-subject-token"]
        self._body = typed.decode(answer.content, _Body).token
        self._keep(self._body.catalog, revision)
        life: timedelta = self._body.expires_at - self._clock.now()
        self._renew_at = self._clock.monotonic() + 0.8 * life.total_seconds()


class RemoteValidator:
    """Asks identity about tokens, and remembers what is valid for a minute."""

    def __init__(self, network: Network, url: str, user: ServiceUser, *, clock: Clock) -> None:
        self._network, self._url, self._user, self._clock = network, url, user, clock
        self._known: OrderedDict[str, tuple[float, TokenInfo]] = OrderedDict()

    async def validate(self, token: str, *, allow_expired: bool = False) -> TokenInfo:
        """Return what the token says. Raises Unauthenticated, Unavailable."""
        known = self._known.get(token)
        if known is not None and known[0] > self._clock.monotonic():
            info = known[1]
        else:
            info = await self._ask(token)
            self._remember(token, info)
        if info.expires_at <= self._clock.now() and not allow_expired:
            raise Unauthenticated(INVALID)
        return info

    async def _ask(self, token: str, *, refused: str = "") -> TokenInfo:
        own = await self._user.token(instead_of=refused)
        headers = {"X-Auth-Token": own, "X-Subject-Token": token}
        url = f"{self._url}/auth/tokens?nocatalog=1&allow_expired=1"
        try:
            answer = await ask(self._network, "GET", url, headers)
        except NotFound as error:
            raise Unauthenticated(INVALID) from error
        except Unauthenticated as error:
            if refused:
                raise Unavailable(
                    "The identity service does not accept our service user's token."
                ) from error
            return await self._ask(token, refused=own)
        return typed.decode(answer.content, _Body).token.info()

    def _remember(self, token: str, info: TokenInfo) -> None:
        self._known[token] = (self._clock.monotonic() + limits.TOKEN_CACHE_S, info)
        self._known.move_to_end(token)
        if len(self._known) > limits.TOKEN_CACHE_ENTRIES:
            self._known.popitem(last=False)


class Asked(Struct, frozen=True):
    """Who is asked: its name for messages, how long it may take, what is said when it does not."""

    name: str
    wait_s: float
    silence: str


IDENTITY = Asked("identity", limits.IDENTITY_CALL_S, "The identity service did not answer.")


class Reply(Struct, frozen=True):
    """What was answered, below 300; header names in lower case."""

    headers: dict[str, str]
    content: bytes


async def ask(
    network: Network,
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    content: bytes = b"",
    of: Asked = IDENTITY,
) -> Reply:
    """Send one request to a whole URL, to identity unless `of` names another.

    Raises one of the nine kinds.
    """
    sent = {"accept": "application/json", "content-length": str(len(content))}
    sent |= {name.lower(): value for name, value in headers.items()}
    request = Request(method, url, sent, content)
    what = f"{method} {request.path}"
    try:
        async with asyncio.timeout(of.wait_s):
            response = await network.send(request)
            body = await response.whole()
    except (TimeoutError, NoAnswer) as error:
        raise Unavailable(of.silence, private=f"{what}: {error!r}") from error
    if response.status >= 300:
        raise refusal(of.name, what, response.status, response.headers, body)
    return Reply(response.headers, body)
