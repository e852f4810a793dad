"""/mooring/tokens: what an operator does with all tokens at once; no part of OpenStack's API."""

from __future__ import annotations

from mooring.identity import renewal
from mooring.identity.service import Identity
from mooring.web.api import Api, Call, Reply

api = Api[Identity]()


@api.delete("/mooring/tokens", policy="mooring:end_all_tokens")
async def end_all_tokens(call: Call[Identity]) -> Reply:
    """End every token, the caller's too, and make others with new keys."""
    await renewal.end_all(call.service)
    return Reply(204)


@api.post("/mooring/tokens/keys", policy="mooring:rotate_token_keys")
async def rotate_token_keys(call: Call[Identity]) -> Reply:
    """Make tokens with the next key from now on."""
    await renewal.rotate(call.service)
    return Reply(204)
