"""/flavors, their extra specs and who may use private ones (facts/compute.md 10.2, 11.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from mooring.compute.flavors import extra_specs, flavors
from mooring.compute.flavors.api import flavor_views
from mooring.compute.flavors.flavors import FlavorQuery, NewFlavor
from mooring.compute.service import Compute
from mooring.compute.tables import Flavor
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import Name, Truth, Whole, read_truth, truth, whole
from mooring.errors import Invalid, NotFound
from mooring.web import paging
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Since, Until

api = Api[Compute]()

_SPECS = "os_compute_api:os-flavor-extra-specs:"
_QUERY = ("limit", "marker", "sort_key", "sort_dir", "is_public", "minDisk", "minRam")
_CHECKED = (2, 86)
_NO_PLAIN_FIELDS = (2, 102)

SpecKey = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9_:. -]+\Z")]
SpecValue = Annotated[str, Meta(max_length=255)] | int | float
FlavorId = Annotated[str, Meta(max_length=255, pattern=r"^(?! )[a-zA-Z0-9. _-]+(?<! )\Z")]
Text = Annotated[str, Meta(max_length=65535)]


class FlavorBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flavor to make."""

    name: Name
    ram: Whole
    vcpus: Whole
    disk: Whole
    id: FlavorId | int | None = None
    swap: Whole = 0
    ephemeral: Whole = field(name="OS-FLV-EXT-DATA:ephemeral", default=0)
    is_public: Truth = field(name="os-flavor-access:is_public", default=True)
    rxtx_factor: Annotated[float | str, Until(2, 101)] = 1.0
    description: Annotated[Text | None, Since(2, 55)] = None


class Description(Struct, frozen=True, forbid_unknown_fields=True):
    """What PUT changes of a flavor."""

    description: Text | None


class Tenant(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of addTenantAccess and removeTenantAccess."""

    tenant: Annotated[str, Meta(min_length=1, max_length=255)]


@api.get("/flavors", policy=None)
async def list_flavors(call: Call[Compute]) -> Reply:
    """Names and links of one page."""
    return await _list(call, "/flavors", flavor_views.brief)


@api.get("/flavors/detail", policy=None)
async def list_flavors_detail(call: Call[Compute]) -> Reply:
    """One page, whole."""
    return await _list(call, "/flavors/detail", flavor_views.whole)


@api.get("/flavors/{flavor_id}", policy=None)
async def show_flavor(call: Call[Compute]) -> Reply:
    """One flavor."""
    queries.check_keys(call, (), strict_since=_NO_PLAIN_FIELDS)
    return Reply(200, {"flavor": flavor_views.whole(await _find(call), call)})


@api.post(
    "/flavors",
    FlavorBody,
    key="flavor",
    only_key=True,
    policy="os_compute_api:os-flavor-manage:create",
)
async def create_flavor(call: Call[Compute], body: FlavorBody) -> Reply:
    """Make a flavor; 409 when its name or id is taken."""
    wanted, now = _read_new(body), call.service.clock.now()
    row = await call.service.store.write(lambda tx: flavors.create(tx, wanted, now))
    return Reply(200, {"flavor": flavor_views.whole(row, call)})


@api.put(
    "/flavors/{flavor_id}",
    Description,
    key="flavor",
    only_key=True,
    policy="os_compute_api:os-flavor-manage:update",
    since=(2, 55),
)
async def describe_flavor(call: Call[Compute], body: Description) -> Reply:
    """Change the description, and nothing else."""
    row = await call.service.store.write(
        lambda tx: flavors.describe(tx, call.who, call.path["flavor_id"], body.description)
    )
    return Reply(200, {"flavor": flavor_views.whole(row, call)})


@api.delete("/flavors/{flavor_id}", policy="os_compute_api:os-flavor-manage:delete")
async def delete_flavor(call: Call[Compute]) -> Reply:
    """Delete a flavor; its servers keep their size."""
    await call.service.store.write(lambda tx: flavors.delete(tx, call.who, call.path["flavor_id"]))
    return Reply(202)


@api.get("/flavors/{flavor_id}/os-extra_specs", policy=f"{_SPECS}index")
async def list_specs(call: Call[Compute]) -> Reply:
    """All extra specs of a flavor."""
    return Reply(200, {"extra_specs": (await _find(call)).extra_specs})


@api.get("/flavors/{flavor_id}/os-extra_specs/{key}", policy=f"{_SPECS}show")
async def show_spec(call: Call[Compute]) -> Reply:
    """One extra spec."""
    specs, key = (await _find(call)).extra_specs, call.path["key"]
    return Reply(200, {key: _spec(call, specs, key)})


@api.post(
    "/flavors/{flavor_id}/os-extra_specs",
    dict[SpecKey, SpecValue],
    key="extra_specs",
    only_key=True,
    policy=f"{_SPECS}create",
)
async def add_specs(call: Call[Compute], body: dict[str, str | float]) -> Reply:
    """Add or replace extra specs."""
    added = {key: str(value) for key, value in body.items()}
    await _change_specs(call, added=added)
    return Reply(200, {"extra_specs": added})


@api.put(
    "/flavors/{flavor_id}/os-extra_specs/{key}",
    dict[SpecKey, SpecValue],
    policy=f"{_SPECS}update",
)
async def set_spec(call: Call[Compute], body: dict[str, str | float]) -> Reply:
    """Set one extra spec, the one that the path names."""
    key = call.path["key"]
    if set(body) != {key}:
        raise Invalid("Request body and URI mismatch: the body has the one key that the URL names.")
    added = {key: str(body[key])}
    await _change_specs(call, added=added)
    return Reply(200, added)


@api.delete("/flavors/{flavor_id}/os-extra_specs/{key}", policy=f"{_SPECS}delete")
async def delete_spec(call: Call[Compute]) -> Reply:
    """Remove one extra spec."""
    await _change_specs(call, removed=call.path["key"])
    return Reply(200)


@api.get("/flavors/{flavor_id}/os-flavor-access", policy="os_compute_api:os-flavor-access")
async def list_access(call: Call[Compute]) -> Reply:
    """Projects that may use a private flavor; 404 for a public one."""
    flavor_id = call.path["flavor_id"]
    projects = await call.service.store.read(lambda tx: flavors.projects(tx, call.who, flavor_id))
    return _access(flavor_id, projects)


@api.action(
    "/flavors/{flavor_id}/action",
    "addTenantAccess",
    Tenant,
    policy="os_compute_api:os-flavor-access:add_tenant_access",
)
async def allow_project(call: Call[Compute], body: Tenant) -> Reply:
    """Let a project that is known use a flavor; from 2.7 on a public one is refused."""
    await call.service.projects.require(body.tenant, call.who)
    flavor_id, strict = call.path["flavor_id"], call.version >= (2, 7)
    projects = await call.service.store.write(
        lambda tx: flavors.allow(tx, call.who, flavor_id, body.tenant, private_only=strict)
    )
    return _access(flavor_id, projects)


@api.action(
    "/flavors/{flavor_id}/action",
    "removeTenantAccess",
    Tenant,
    policy="os_compute_api:os-flavor-access:remove_tenant_access",
)
async def refuse_project(call: Call[Compute], body: Tenant) -> Reply:
    """Take a flavor from a project."""
    flavor_id = call.path["flavor_id"]
    projects = await call.service.store.write(
        lambda tx: flavors.refuse(tx, call.who, flavor_id, body.tenant)
    )
    return _access(flavor_id, projects)


async def _list(call: Call[Compute], path: str, view: flavor_views.View) -> Reply:
    named = call.version >= (2, 102)
    queries.check_keys(call, (*_QUERY, "name") if named else _QUERY)
    page = paging.read(call.query, keys=flavors.SORT_COLUMNS, default=(("flavorid", "asc"),))
    query = _read_query(call, page, named=named)
    rows = await call.service.store.read(lambda tx: flavors.page(tx, call.who, query))
    body = {"flavors": [view(row, call) for row in rows]}
    ids = [row.id for row in rows]
    return Reply(200, body | paging.links(call, path, page, ids, name="flavors_links"))


async def _find(call: Call[Compute]) -> Flavor:
    flavor_id = call.path["flavor_id"]
    return await call.service.store.read(lambda tx: flavors.visible(tx, call.who, flavor_id))


async def _change_specs(
    call: Call[Compute], *, added: Mapping[str, str] | None = None, removed: str = ""
) -> None:
    if added and call.version >= _CHECKED:
        extra_specs.check(added)

    def change(tx: Any) -> None:
        flavor = flavors.visible(tx, call.who, call.path["flavor_id"])
        specs = {**flavor.extra_specs, **(added or {})}
        if removed:
            _spec(call, specs, removed)
            del specs[removed]
        flavors.set_specs(tx, flavor.id, specs)

    await call.service.store.write(change)


def _spec(call: Call[Compute], specs: Mapping[str, str], key: str) -> str:
    if key not in specs:
        raise NotFound(f"Flavor {call.path['flavor_id']} has no extra specs with key {key}.")
    return specs[key]


def _access(flavor_id: str, projects: Sequence[str]) -> Reply:
    pairs = [{"flavor_id": flavor_id, "tenant_id": project} for project in projects]
    return Reply(200, {"flavor_access": pairs})


def _read_query(call: Call[Compute], page: paging.Page, *, named: bool) -> FlavorQuery:
    is_public = call.query.get("is_public", "true").lower()
    return FlavorQuery(
        is_public=None if is_public == "none" else read_truth(is_public, "is_public"),
        min_memory_mib=whole(call.query.get("minRam", "0"), "minRam"),
        min_disk_gib=whole(call.query.get("minDisk", "0"), "minDisk"),
        name=call.query.get("name", "") if named else "",
        sort_key=page.sort[0][0],
        # Unlike servers, flavors ascend unless told otherwise.
        descending=queries.read_one(call, "sort_dir", ("asc", "desc"), "asc") == "desc",
        marker=page.marker or "",
        limit=page.limit,
    )


def _read_new(body: FlavorBody) -> NewFlavor:
    return NewFlavor(
        id=None if body.id in {None, "auto", ""} else str(body.id),
        name=body.name,
        vcpus=whole(body.vcpus, "vcpus", least=1),
        memory_mib=whole(body.ram, "ram", least=1),
        disk_gib=whole(body.disk, "disk"),
        ephemeral_gib=whole(body.ephemeral, "OS-FLV-EXT-DATA:ephemeral"),
        swap_mib=whole(body.swap, "swap"),
        rxtx_factor=_factor(body.rxtx_factor),
        is_public=truth(body.is_public),
        description=body.description,
    )


def _factor(value: float | str) -> float:
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if not 0 < factor < 3.4e38:
        raise Invalid(f"Invalid input for field/attribute rxtx_factor. Value: {value}.")
    return factor
