"""/os-keypairs (facts/compute.md 10.2, 11.3)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy.orm import Session

from mooring import limits
from mooring.compute.keypairs import keypairs
from mooring.compute.keypairs.keypairs import KeyMaterial, NewKeypair
from mooring.compute.quotas import quota
from mooring.compute.service import Compute
from mooring.compute.tables import Keypair
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import Name, microsecond
from mooring.errors import Invalid, OverQuota
from mooring.web import paging
from mooring.web.api import Api, Call, Reply, Version
from mooring.web.bodies import Required, Since

api = Api[Compute]()

_RULE = "os_compute_api:os-keypairs:"
_TYPED_SINCE: Version = (2, 2)
_USER_SINCE: Version = (2, 10)
_PAGED_SINCE: Version = (2, 35)
_IMPORT_ONLY_SINCE: Version = (2, 92)
_PublicKey = Annotated[str, Meta(min_length=1, max_length=65535)]
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_- ")


class Create(Struct, frozen=True, forbid_unknown_fields=True):
    """A public key to keep, or until 2.91 a pair to make."""

    name: Name
    public_key: Annotated[_PublicKey | UnsetType, Required(2, 92)] = UNSET
    type: Annotated[Literal["ssh", "x509"], Since(2, 2)] = "ssh"
    user_id: Annotated[Name | UnsetType, Since(2, 10)] = UNSET


@api.get("/os-keypairs", policy=None)
async def list_keypairs(call: Call[Compute]) -> Reply:
    """List a user's keys, by name."""
    user_id = _user_id(call, "index")
    paged = call.version >= _PAGED_SINCE
    queries.check_keys(call, ("user_id", *queries.PAGING) if paged else ("user_id",))
    page = paging.read(call.query) if paged else paging.Page(limits.WEB_PAGE_ROWS)
    rows = await call.service.store.read(
        lambda tx: keypairs.page(tx, user_id, marker=page.marker or "", limit=page.limit)
    )
    body: dict[str, Any] = {"keypairs": [{"keypair": _brief(row, call)} for row in rows]}
    if paged:
        names = [row.name for row in rows]
        body |= paging.links(call, "/os-keypairs", page, names, name="keypairs_links")
    return Reply(200, body)


@api.post("/os-keypairs", Create, key="keypair", only_key=True, policy=None)
async def create_keypair(call: Call[Compute], new: Create) -> Reply:
    """Keep a public key, or make a pair and return its private half once."""
    _check_name(new.name, call.version)
    user_id = new.user_id or call.who.user_id
    call.require(f"{_RULE}create", {"user_id": user_id, "project_id": call.who.project_id})
    wanted = NewKeypair(
        user_id=user_id, name=new.name, type=new.type, public_key=new.public_key or None
    )
    key = await asyncio.to_thread(keypairs.material, wanted)
    row = await call.service.store.write(lambda tx: _keep(tx, call, wanted, key))
    answer = _brief(row, call) | {"user_id": row.user_id}
    if key.private_key:
        answer["private_key"] = key.private_key
    return Reply(201 if call.version >= _TYPED_SINCE else 200, {"keypair": answer})


@api.get("/os-keypairs/{name}", policy=None)
async def show_keypair(call: Call[Compute]) -> Reply:
    """One key."""
    user_id, name = _user_id(call, "show"), call.path["name"]
    queries.check_keys(call, ("user_id",))
    row = await call.service.store.read(lambda tx: keypairs.visible(tx, user_id, name))
    more = {
        "user_id": row.user_id,
        "id": row.id,
        "created_at": microsecond(row.created_at),
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }
    return Reply(200, {"keypair": _brief(row, call) | more})


@api.delete("/os-keypairs/{name}", policy=None)
async def delete_keypair(call: Call[Compute]) -> Reply:
    """Forget a key."""
    user_id, name = _user_id(call, "delete"), call.path["name"]
    queries.check_keys(call, ("user_id",))
    await call.service.store.write(lambda tx: keypairs.delete(tx, user_id, name))
    return Reply(204 if call.version >= _TYPED_SINCE else 202)


def _user_id(call: Call[Compute], verb: str) -> str:
    """Return whose keys are meant: from 2.10 on the query may name another user."""
    named = call.query.get("user_id", "") if call.version >= _USER_SINCE else ""
    user_id = named or call.who.user_id
    call.require(f"{_RULE}{verb}", {"user_id": user_id, "project_id": call.who.project_id})
    return user_id


def _check_name(name: str, version: Version) -> None:
    allowed = _PLAIN | set("@.") if version >= _IMPORT_ONLY_SINCE else _PLAIN
    if not set(name) <= allowed:
        raise Invalid("Keypair data is invalid: Keypair name contains unsafe characters")


def _keep(tx: Session, call: Call[Compute], wanted: NewKeypair, key: KeyMaterial) -> Keypair:
    # They are the user's, whichever project it asks in.
    quota.hold(tx, wanted.user_id)
    most = quota.find_limits(tx, call.who.project_id)["key_pairs"]
    if most != quota.UNLIMITED and keypairs.count(tx, wanted.user_id) >= most:
        raise OverQuota(
            f"Quota exceeded, too many key pairs: {most} are allowed. Delete one first.",
            resources=["key_pairs"],
        )
    return keypairs.create(tx, wanted, key, call.service.clock.now())


def _brief(row: Keypair, call: Call[Compute]) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": row.name,
        "public_key": row.public_key,
        "fingerprint": row.fingerprint,
    }
    if call.version >= _TYPED_SINCE:
        body["type"] = row.type
    return body
