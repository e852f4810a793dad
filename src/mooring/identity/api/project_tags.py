"""/projects/{id}/tags. Source: facts/identity_image_placement.md 4.3."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from mooring import typed
from mooring.errors import Invalid, NotFound
from mooring.identity import projects
from mooring.identity.service import Identity
from mooring.identity.tags import Tag, Tags
from mooring.web.api import Api, Call, Reply

api = Api[Identity]()

_ALL = "/projects/{project_id}/tags"
_ONE = "/projects/{project_id}/tags/{tag}"


class AllTags(Struct, frozen=True):
    """What a project is to be marked with, and nothing else."""

    tags: Tags


@api.get(_ALL, policy=None)
async def list_tags(call: Call[Identity]) -> Reply:
    """Return a project's tags; those of its own one to everybody."""
    return Reply(200, {"tags": await _read(call, "list_project_tags")})


@api.get(_ONE, policy=None)
async def check_tag(call: Call[Identity]) -> Reply:
    """Say whether a project has a tag."""
    if call.path["tag"] not in await _read(call, "get_project_tag"):
        raise NotFound(f"Could not find project tag: {call.path['tag']}.")
    return Reply(204)


@api.put(_ALL, AllTags, policy="identity:update_project_tags")
async def replace_tags(call: Call[Identity], body: AllTags) -> Reply:
    """Mark a project with these tags alone."""
    project_id, wanted = call.path["project_id"], body.tags
    tags = await call.service.change(lambda tx: projects.set_tags(tx, project_id, wanted))
    return Reply(200, {"tags": tags})


@api.put(_ONE, policy="identity:create_project_tag")
async def add_tag(call: Call[Identity]) -> Reply:
    """Mark a project with one tag more; one that it has, it keeps."""
    project_id, tag = call.path["project_id"], _tag(call.path["tag"])
    await call.service.change(lambda tx: projects.add_tag(tx, project_id, tag))
    return Reply(201, headers={"location": call.url(f"/projects/{project_id}/tags")})


@api.delete(_ALL, policy="identity:delete_project_tags")
async def remove_tags(call: Call[Identity]) -> Reply:
    """Take all tags away."""
    project_id = call.path["project_id"]
    await call.service.change(lambda tx: projects.set_tags(tx, project_id, []))
    return Reply(204)


@api.delete(_ONE, policy="identity:delete_project_tag")
async def remove_tag(call: Call[Identity]) -> Reply:
    """Take one tag away."""
    project_id, tag = call.path["project_id"], call.path["tag"]
    await call.service.change(lambda tx: projects.remove_tag(tx, project_id, tag))
    return Reply(204)


def _tag(text: str) -> str:
    try:
        return typed.convert(text, Tag)
    except msgspec.ValidationError as error:
        raise Invalid(
            "Invalid input for field/attribute tag. It has 1 to 255 characters, of which none is a "
            "comma or a slash. Nothing was changed."
        ) from error


async def _read(call: Call[Identity], rule: str) -> list[str]:
    project_id = call.path["project_id"]
    call.require(f"identity:{rule}", {"target.project.id": project_id})
    return await call.service.store.read(lambda tx: projects.find(tx, project_id).tags)
