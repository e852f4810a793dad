"""How a request reaches an agent on another machine: HTTPS, each side certified by the cloud.

The agent's certificate has to name the joining that the control plane knows. Whoever serves there
with another one, be it of another host or of a host that was removed, gets no request.
"""

from __future__ import annotations

import ssl

import httpx2
from msgspec import Struct

from mooring import certificates
from mooring.agent_api.transport import POOL, fetch
from mooring.errors import Unavailable
from mooring.limits import AGENT_CONNECT_S
from mooring.neighbour import Deliver, NoAnswer, Request, Response, deliver_once


class Place(Struct, frozen=True):
    """Where a host that joined serves: ADDRESS:PORT, and which joining it shows there."""

    address: str
    enrolment: str


class RemoteSocket:
    """Calls an agent of another machine. `context` shows the control plane's certificate."""

    def __init__(
        self, name: str, place: Place, context: ssl.SSLContext, deliver: Deliver = deliver_once
    ) -> None:
        address = place.address
        self._client = httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(verify=context, trust_env=False, limits=POOL),
            base_url=f"https://{address}",
            trust_env=False,
        )
        self._name, self._place, self._deliver = name, place, deliver

    async def send(self, request: Request, timeout_s: float) -> Response:
        async def forward(again: Request) -> Response:
            return await self._forward(again, timeout_s)

        return await self._deliver(request, forward)

    async def close(self) -> None:
        await self._client.aclose()

    async def _forward(self, request: Request, timeout_s: float) -> Response:
        if self._client.is_closed:
            raise Unavailable(f"Host {self._name} was taken out of this cloud, or has moved.")
        connect_s = min(timeout_s, AGENT_CONNECT_S)
        try:
            return await fetch(
                self._client,
                request,
                httpx2.Timeout(timeout_s, connect=connect_s),
                {"sni_hostname": certificates.host_name(self._place.enrolment)},
            )
        except (httpx2.TransportError, NoAnswer) as error:
            asked = f"{request.method} {request.target} at {self._place.address}: {error!r}"
            raise Unavailable(self._explain(error), private=asked) from error

    def _explain(self, error: BaseException) -> str:
        if _is_about_certificates(error):
            return (
                f"What answers at {self._place.address} has not the certificate of host "
                f"{self._name}; nothing was asked of it. See what runs there, or remove the host "
                "and let it join again."
            )
        return "The agent gave no answer; it may have acted or not. Ask again when it runs."


def _is_about_certificates(error: BaseException | None) -> bool:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
