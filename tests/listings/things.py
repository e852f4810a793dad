"""One of each thing that can be listed, made again and again: `#` is which one it is.

What is saved with `0` in its name stands for a thing of which lists below it grow, too.
"""

from __future__ import annotations

from typing import Any

from tests.crowd.case import Ask

COMPUTE, VOLUME, SHARE = "/compute/v2.1", "/volume/v3", "/share/v2"
IDENTITY, IMAGE, PLACEMENT = "/identity/v3", "/image/v2", "/placement"
SPECS = {"driver_handles_share_servers": "False", "snapshot_support": "True"}
NOTHING: dict[str, Any] = {}


def post(path: str, kind: str, fields: dict[str, Any], saves: str = "") -> Ask:
    """Make a thing whose body and answer are wrapped in its `kind`."""
    return Ask("POST", path, {kind: fields}, saves=saves, of=f"{kind}.id")


def act(path: str, action: str, value: Any) -> Ask:
    return Ask("POST", f"{path}/action", {action: value})


_SERVER = {"name": "s#", "flavorRef": "{flavor}", "imageRef": "{image}", "networks": "none"}
_SHARE_TYPE = {"extra_specs": SPECS, "share_type_access:is_public": False}
_FLAVOR = {"ram": 1, "vcpus": 1, "disk": 0, "os-flavor-access:is_public": False}
_TYPE = {"name": "t#", "extra_specs": {"a": "b"}}
IDENTITY_THINGS = (
    post(f"{IDENTITY}/projects", "project", {"name": "p#"}, "project_id#"),
    post(f"{IDENTITY}/users", "user", {"name": "u#", "password": "secret"}, "user_id#"),
    post(f"{IDENTITY}/groups", "group", {"name": "g#"}, "group_id#"),
    post(f"{IDENTITY}/roles", "role", {"name": "r#"}, "role_id#"),
    post(f"{IDENTITY}/roles", "role", {"name": "implied#"}, "implied#"),
    post(f"{IDENTITY}/domains", "domain", {"name": "d#"}, "domain_id#"),
    post(f"{IDENTITY}/regions", "region", {"description": "#"}),
    post(f"{IDENTITY}/services", "service", {"type": "kind#", "name": "x"}, "service_id#"),
    Ask("PUT", f"{IDENTITY}/projects/{{project_id0}}/users/{{user_id0}}/roles/{{role_id#}}"),
    Ask("PUT", f"{IDENTITY}/projects/{{project_id#}}/users/{{user_id0}}/roles/{{role_id0}}"),
    Ask("PUT", f"{IDENTITY}/projects/{{project_id#}}/users/{{me}}/roles/{{role_id0}}"),
    Ask("PUT", f"{IDENTITY}/domains/{{domain_id#}}/users/{{me}}/roles/{{role_id0}}"),
    Ask("PUT", f"{IDENTITY}/projects/{{project_id0}}/groups/{{group_id0}}/roles/{{role_id#}}"),
    Ask("PUT", f"{IDENTITY}/domains/{{domain_id0}}/users/{{user_id0}}/roles/{{role_id#}}"),
    Ask("PUT", f"{IDENTITY}/domains/{{domain_id0}}/groups/{{group_id0}}/roles/{{role_id#}}"),
    Ask("PUT", f"{IDENTITY}/system/users/{{user_id0}}/roles/{{role_id#}}"),
    Ask("PUT", f"{IDENTITY}/system/groups/{{group_id0}}/roles/{{role_id#}}"),
    Ask("PUT", f"{IDENTITY}/groups/{{group_id0}}/users/{{user_id#}}"),
    Ask("PUT", f"{IDENTITY}/groups/{{group_id#}}/users/{{user_id0}}"),
    Ask("PUT", f"{IDENTITY}/roles/{{role_id0}}/implies/{{implied#}}"),
    Ask("PUT", f"{IDENTITY}/projects/{{project_id0}}/tags/t#"),
    post(
        f"{IDENTITY}/endpoints",
        "endpoint",
        {"service_id": "{service_id#}", "interface": "public", "url": "http://service"},
    ),
    post(
        f"{IDENTITY}/users/{{me}}/application_credentials",
        "application_credential",
        {"name": "c#"},
    ),
)
IMAGE_THINGS = (
    Ask(
        "POST",
        f"{IMAGE}/images",
        {"name": "i#", "visibility": "shared", "tags": ["t"], "some": "property"},
        saves="image_id#",
        of="id",
    ),
    Ask("POST", f"{IMAGE}/images/{{image_id0}}/members", {"member": "{project_id#}"}),
)
PLACEMENT_THINGS = (
    Ask(
        "POST",
        f"{PLACEMENT}/resource_providers",
        {"name": "rp#"},
        saves="provider_id#",
        of="uuid",
    ),
    Ask(
        "PUT",
        f"{PLACEMENT}/resource_providers/{{provider_id#}}/inventories",
        {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}},
    ),
    Ask("PUT", f"{PLACEMENT}/traits/CUSTOM_T#"),
    Ask("PUT", f"{PLACEMENT}/resource_classes/CUSTOM_C#"),
)
VOLUME_THINGS = (
    post(
        f"{VOLUME}/types", "volume_type", {**_TYPE, "os-volume-type-access:is_public": False}, "t#"
    ),
    act(f"{VOLUME}/types/{{t0}}", "addProjectAccess", {"project": "{project_id#}"}),
    post(f"{VOLUME}/volumes", "volume", {"size": 1, "metadata": {"a": "b"}}, "volume_id#"),
    post(f"{VOLUME}/volumes", "volume", {"size": 1, "name": "more"}, "more#"),
    post(f"{VOLUME}/volumes", "volume", {"size": 1, "name": "given"}, "given#"),
)
COMPUTE_THINGS = (
    post(f"{COMPUTE}/flavors", "flavor", {"name": "f#", **_FLAVOR}, "f#"),
    Ask("POST", f"{COMPUTE}/flavors/{{f#}}/os-extra_specs", {"extra_specs": {"a": "b"}}),
    post(f"{COMPUTE}/os-server-groups", "server_group", {"name": "g#", "policy": "affinity"}),
    post(f"{COMPUTE}/os-aggregates", "aggregate", {"name": "a#"}, "aggregate#"),
    act(f"{COMPUTE}/os-aggregates/{{aggregate#}}", "add_host", {"host": "h1"}),
    Ask("POST", f"{COMPUTE}/os-keypairs", {"keypair": {"name": "k#", "public_key": "{key}"}}),
    post(f"{COMPUTE}/servers", "server", {**_SERVER, "tags": ["a"]}, "server_id#"),
)
ON_VOLUMES = (Ask("POST", f"{VOLUME}/volume-transfers", {"transfer": {"volume_id": "{given#}"}}),)
ON_SERVERS = (
    Ask(
        "POST",
        f"{COMPUTE}/servers/{{server_id#}}/os-volume_attachments",
        {"volumeAttachment": {"volumeId": "{volume_id#}"}},
    ),
    Ask(
        "POST",
        f"{COMPUTE}/servers/{{server_id0}}/os-volume_attachments",
        {"volumeAttachment": {"volumeId": "{more#}"}},
    ),
    Ask("PUT", f"{COMPUTE}/servers/{{server_id0}}/tags/t#", NOTHING),
)
OF_VOLUMES = (
    post(f"{VOLUME}/snapshots", "snapshot", {"volume_id": "{volume_id#}", "force": True}, "snap#"),
    post(f"{VOLUME}/backups", "backup", {"volume_id": "{volume_id#}", "force": True}, "backup_id#"),
)
SHARE_THINGS = (
    post(f"{SHARE}/types", "share_type", {"name": "t#", **_SHARE_TYPE}, "type_id#"),
    post(
        f"{SHARE}/shares",
        "share",
        {"size": 1, "share_proto": "NFS", "share_type": "t0"},
        "share_id#",
    ),
)
ON_SHARES = (
    act(
        f"{SHARE}/shares/{{share_id#}}",
        "allow_access",
        {"access_type": "ip", "access_to": "192.0.2.20#"},
    ),
    act(
        f"{SHARE}/shares/{{share_id0}}",
        "allow_access",
        {"access_type": "ip", "access_to": "192.0.2.10#"},
    ),
    post(f"{SHARE}/snapshots", "snapshot", {"share_id": "{share_id#}"}, "share_snapshot#"),
    Ask(
        "POST",
        f"{SHARE}/resource-locks",
        {"resource_lock": {"resource_id": "{share_id#}", "resource_type": "share"}},
    ),
)
ROUNDS = (
    (*IDENTITY_THINGS, *IMAGE_THINGS, *PLACEMENT_THINGS, *VOLUME_THINGS),
    (*COMPUTE_THINGS, *SHARE_THINGS),
    (*ON_VOLUMES, *ON_SERVERS, *ON_SHARES),
    (OF_VOLUMES[0],),
    (OF_VOLUMES[1],),
)
"""What is made, and awaited, one behind the other."""
