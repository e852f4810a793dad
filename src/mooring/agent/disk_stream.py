"""How a host fetches a disk that another one offers (`mooring.agent.door` is the other side)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mooring import certificates
from mooring.agent.blocks import HEAD, PIECE_BYTES, Piece
from mooring.agent.door import YES
from mooring.agent.offers import KEY
from mooring.agent_api.copies import Offer
from mooring.errors import Invalid, Unavailable
from mooring.limits import AGENT_CONNECT_S

# The other host may send slowly, when it shares what it may send with many others.
_SILENCE_S = 120.0


async def fetch(offer: Offer, number: int, begin: int) -> AsyncGenerator[Piece]:
    """Yield what a disk of an offer has that is not zeros, from an offset on, in order.

    Raises Unavailable when the other host does not give it, or not to its end; Invalid for an offer
    that no host would make.
    """
    size_bytes = offer.disks[number].size_bytes
    try:
        async with _connect(offer) as (reader, writer):
            writer.write(f"{offer.key} {number} {begin}\n".encode("ascii"))
            async with asyncio.timeout(_SILENCE_S):
                answer = await reader.readline()
            if answer != YES:
                raise Unavailable(
                    f"The host at {offer.address} does not give the disk for this key: it was "
                    "started anew, or the offer was withdrawn. Have it offered again."
                )
            at = begin
            while (piece := await _read(reader, at, size_bytes)).data:
                at = piece.end
                yield piece
    except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
        raise Unavailable(
            f"The host at {offer.address} did not send the disk to its end. What has come is kept; "
            "ask again.",
            private=repr(error),
        ) from error


async def _read(reader: asyncio.StreamReader, at: int, size_bytes: int) -> Piece:
    """Return the next piece, without data at the end. Raises Unavailable for nonsense."""
    async with asyncio.timeout(_SILENCE_S):
        offset, length = HEAD.unpack(await reader.readexactly(HEAD.size))
        last = (size_bytes, 0)
        fits = at <= offset and offset + length <= size_bytes and 0 < length <= PIECE_BYTES
        if not fits and (offset, length) != last:
            raise Unavailable("What another host sends of a disk makes no sense. Ask again.")
        return Piece(offset, await reader.readexactly(length))


@asynccontextmanager
async def _connect(
    offer: Offer,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = offer.address.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and KEY.fullmatch(offer.key)):
        raise Invalid("That is no offer of a host.")
    async with asyncio.timeout(AGENT_CONNECT_S):
        reader, writer = await asyncio.open_connection(
            host.strip("[]"),
            int(port),
            ssl=_trust(offer),
            server_hostname=offer.identity,
            limit=PIECE_BYTES,
        )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def _trust(offer: Offer) -> ssl.SSLContext:
    try:
        return certificates.client_context(offer.authority.encode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise Invalid("That is no offer of a host.", private=str(error)) from error
