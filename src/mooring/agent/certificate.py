"""A host's certificate: shown, and renewed while it serves. Only hosts that joined have one.

The key of the next certificate is on disk before anybody hears of it, and key and certificate take
the place of the former ones in one rename. A host killed in between shows one or the other.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from msgspec.structs import replace

from mooring import certificates
from mooring.agent import membership
from mooring.agent.host import Agent
from mooring.agent.membership import Membership
from mooring.agent.move_identity import MoveIdentity
from mooring.agent.serving import Call, Handlers
from mooring.agent_api import verbs
from mooring.agent_api.certificates import Shown, ShownForMoves
from mooring.errors import Conflict, Forbidden
from mooring.fence.journal import Answer
from mooring.fence.threads import run_to_end

handlers = Handlers[Agent]()


class Credentials:
    """What a host that joined serves with. `context` is in use."""

    def __init__(self, state_dir: Path, member: Membership, context: ssl.SSLContext) -> None:
        self._state_dir, self._context = state_dir, context
        self.member = member

    def show(self) -> Shown:
        """Return the certificate, and a request for the next with a key of its own."""
        key = membership.ensure_key(self._state_dir / membership.RENEWAL_KEY)
        wish = certificates.make_request(key, self.member.name).decode("ascii")
        return Shown(self.member.certificate, wish)

    def take(self, certificate: str) -> None:
        """Show another certificate from the next connection on. Raises Conflict, Invalid."""
        if certificate == self.member.certificate:
            return
        file = self._state_dir / membership.RENEWAL_KEY
        key = membership.ensure_key(file)
        if not certificates.is_for(certificate.encode(), key):
            raise Conflict("This certificate is for another key. Ask for the request again.")
        member = replace(self.member, certificate=certificate, key=key.decode("ascii"))
        membership.write(self._state_dir, member)
        certificates.renew(self._context, member.held)
        self.member = member
        file.unlink(missing_ok=True)


@handlers.of(verbs.SHOW_CERTIFICATE)
async def show_certificate(call: Call[Agent]) -> Answer:
    """Answer what the host shows, and what it wishes to be certified next."""
    return Answer(body=await run_to_end(_of(call).show))


@handlers.of(verbs.PUT_CERTIFICATE)
async def put_certificate(call: Call[Agent]) -> Answer:
    """Show another certificate from now on."""
    await run_to_end(lambda: _of(call).take(call.body.certificate))
    return Answer(status=204)


@handlers.of(verbs.SHOW_MOVE_CERTIFICATES)
async def show_move_certificates(call: Call[Agent]) -> Answer:
    """Answer what this host shows to other hosts, and what it wishes to be certified next."""
    agent = call.agent
    if agent.encrypts_moves:
        return Answer(body=await run_to_end(MoveIdentity(agent.settings).show))
    clear = agent.moves_in_the_clear
    return Answer(body=ShownForMoves(is_wanted=False, held=None, wish="", in_the_clear=clear))


@handlers.of(verbs.PUT_MOVE_CERTIFICATES)
async def put_move_certificates(call: Call[Agent]) -> Answer:
    """Show other certificates from now on."""
    identity = MoveIdentity(call.agent.settings)
    await run_to_end(lambda: identity.take(call.body))
    return Answer(status=204)


def _of(call: Call[Agent]) -> Credentials:
    if (found := call.agent.credentials) is None:
        name = call.agent.settings.name
        raise Forbidden(f"Host {name} is the control plane's own machine and needs no certificate.")
    return found
