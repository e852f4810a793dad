"""Identity's writing routes."""

from __future__ import annotations

from typing import Any

from tests.crowd.case import Ask, Case

ONE_USER = Ask("POST", "/users", {"user": {"name": "{case}"}}, "user_id", "user.id")
ONE_GROUP = Ask("POST", "/groups", {"group": {"name": "{case}"}}, "group_id", "group.id")
USERS = Ask("POST", "/users", {"user": {"name": "{case}#"}}, "user#", "user.id")
ROLES = Ask("POST", "/roles", {"role": {"name": "{case}#"}}, "role#", "role.id")


def _resource(plural: str, kind: str, **fields: Any) -> list[Case]:
    """POST, PATCH and DELETE of one kind."""
    made = Ask(
        "POST", f"/{plural}", {kind: {"name": "{case}#", **fields}}, f"{kind}#", f"{kind}.id"
    )
    one = Ask("POST", f"/{plural}", {kind: {"name": "{case}", **fields}}, kind, f"{kind}.id")
    route = f"/{plural}/{{{kind}_id}}"
    return [
        Case(
            route=f"POST /{plural}",
            body={kind: {"name": f"{kind}-new#", **fields}},
            look=f"/{plural}",
            kept=f'"{kind}-new#"',
        ),
        Case(
            route=f"PATCH {route}",
            before=(one,),
            path=f"/{plural}/{{{kind}}}",
            body={kind: {"word#": "kept"}} if kind != "role" else {kind: {"name": "{case}-#"}},
            look=f"/{plural}/{{{kind}}}",
            kept='"word#"' if kind != "role" else "",
            one='"{case}-#"' if kind == "role" else "",
        ),
        Case(
            route=f"DELETE {route}",
            before=(made,),
            path=f"/{plural}/{{{kind}#}}",
            look=f"/{plural}",
            gone=f"{{{kind}#}}",
        ),
    ]


def _grants(scope: str, scope_id: str, holder: str = "user") -> list[Case]:
    place = f"{scope}/{holder}s/{{{holder}_id}}/roles"
    real = place.replace("{scope_id}", scope_id)
    give = Ask("PUT", f"{real}/{{role#}}")
    one = ONE_USER if holder == "user" else ONE_GROUP
    return [
        Case(
            route=f"PUT {place}/{{role_id}}",
            before=(one, ROLES),
            path=f"{real}/{{role#}}",
            look=real,
            kept="{role#}",
        ),
        Case(
            route=f"DELETE {place}/{{role_id}}",
            before=(one, ROLES, give),
            path=f"{real}/{{role#}}",
            look=real,
            gone="{role#}",
        ),
    ]


def _members() -> list[Case]:
    """Users who are put into one group, and taken out."""
    users = "/groups/{group_id}/users"
    add = Ask("PUT", f"{users}/{{user#}}")
    return [
        Case(
            route=f"PUT {users}/{{user_id}}",
            before=(ONE_GROUP, USERS),
            path=f"{users}/{{user#}}",
            look=users,
            kept="{user#}",
        ),
        Case(
            route=f"DELETE {users}/{{user_id}}",
            before=(ONE_GROUP, USERS, add),
            path=f"{users}/{{user#}}",
            look=users,
            gone="{user#}",
        ),
    ]


def _implications() -> list[Case]:
    """Roles that one role implies, and does not imply any longer."""
    implied = "/roles/{prior}/implies"
    prior = Ask("POST", "/roles", {"role": {"name": "{case}"}}, "prior", "role.id")
    route = "/roles/{role_id}/implies/{implied_id}"
    return [
        Case(
            route=f"PUT {route}",
            before=(prior, ROLES),
            path=f"{implied}/{{role#}}",
            look=implied,
            kept="{role#}",
        ),
        Case(
            route=f"DELETE {route}",
            before=(prior, ROLES, Ask("PUT", f"{implied}/{{role#}}")),
            path=f"{implied}/{{role#}}",
            look=implied,
            gone="{role#}",
        ),
    ]


def _login(name: str) -> dict[str, Any]:
    user = {"name": name, "domain": {"id": "default"}, "password": "secret"}
    return {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}


_PERSON = Ask(
    "POST", "/users", {"user": {"name": "{case}", "password": "secret"}}, "user_id", "user.id"
)
_MINE = "/users/{me}/application_credentials"
_SERVICE = Ask("POST", "/services", {"service": {"type": "{case}"}}, "service", "service.id")
_ENDPOINT = {"service_id": "{service}", "interface": "public"}

_PROJECT = Ask("POST", "/projects", {"project": {"name": "{case}"}}, "tagged", "project.id")
_TAGS = "/projects/{tagged}/tags"


def _project_tags() -> list[Case]:
    """Tags one by one, and all of a project's."""
    route = "/projects/{project_id}/tags"
    marked = Ask("PUT", f"{_TAGS}/tag#")
    return [
        Case(
            route=f"PUT {route}/{{tag}}",
            before=(_PROJECT,),
            path=f"{_TAGS}/tag#",
            look=_TAGS,
            kept='"tag#"',
        ),
        Case(
            route=f"DELETE {route}/{{tag}}",
            before=(_PROJECT, marked),
            path=f"{_TAGS}/tag#",
            look=_TAGS,
            gone='"tag#"',
        ),
        Case(
            route=f"PUT {route}",
            before=(_PROJECT,),
            path=_TAGS,
            body={"tags": ["tag#"]},
            look=_TAGS,
            one='"tag#"',
        ),
        Case(
            route=f"DELETE {route}",
            before=(_PROJECT, marked),
            path=_TAGS,
            look=_TAGS,
            gone='"tag#"',
        ),
    ]


def _register(saves: str, name: str) -> Ask:
    one = {"service_id": "{service}", "resource_name": name, "default_limit": 1}
    body = {"registered_limits": [one]}
    return Ask("POST", "/registered_limits", body, saves, "registered_limits.0.id")


def _limit(name: str) -> dict[str, Any]:
    owner = {"project_id": "{project}", "resource_limit": 1}
    return {"limits": [{"service_id": "{service}", "resource_name": name, **owner}]}


def _registered_limits() -> list[Case]:
    """What is registered for one service."""
    one, each = _register("registered", "{case}"), _register("registered#", "{case}#")
    return [
        Case(
            route="POST /registered_limits",
            before=(_SERVICE,),
            body=each.body,
            look="/registered_limits",
            kept='"{case}#"',
        ),
        Case(
            route="PATCH /registered_limits/{registered_limit_id}",
            before=(_SERVICE, one),
            path="/registered_limits/{registered}",
            body={"registered_limit": {"description": "{case}-#"}},
            look="/registered_limits/{registered}",
            one='"{case}-#"',
        ),
        Case(
            route="DELETE /registered_limits/{registered_limit_id}",
            before=(_SERVICE, each),
            path="/registered_limits/{registered#}",
            look="/registered_limits",
            gone="{registered#}",
        ),
    ]


def _limits() -> list[Case]:
    """The limits that one project has of that."""
    one, each = _register("registered", "{case}"), _register("registered#", "{case}#")
    own = Ask("POST", "/limits", _limit("{case}"), "limit", "limits.0.id")
    owns = Ask("POST", "/limits", _limit("{case}#"), "limit#", "limits.0.id")
    return [
        Case(
            route="POST /limits",
            before=(_SERVICE, each),
            body=owns.body,
            look="/limits",
            kept='"{case}#"',
        ),
        Case(
            route="PATCH /limits/{limit_id}",
            before=(_SERVICE, one, own),
            path="/limits/{limit}",
            body={"limit": {"description": "{case}-#"}},
            look="/limits/{limit}",
            one='"{case}-#"',
        ),
        Case(
            route="DELETE /limits/{limit_id}",
            before=(_SERVICE, each, owns),
            path="/limits/{limit#}",
            look="/limits",
            gone="{limit#}",
        ),
    ]


CASES = [
    *_registered_limits(),
    *_limits(),
    *_project_tags(),
    *_resource("users", "user"),
    *_resource("projects", "project"),
    *_resource("roles", "role"),
    *_resource("groups", "group"),
    *_resource("domains", "domain", enabled=False),
    *_members(),
    *_implications(),
    *_grants("/projects/{scope_id}", "{project}"),
    *_grants("/projects/{scope_id}", "{project}", "group"),
    *_grants("/domains/{scope_id}", "default"),
    *_grants("/domains/{scope_id}", "default", "group"),
    *_grants("/system", ""),
    *_grants("/system", "", "group"),
    Case(
        route="POST /users/{user_id}/password",
        before=(_PERSON,),
        body={"user": {"original_password": "secret", "password": "new#"}},
        alone=True,
    ),
    Case(route="POST /auth/tokens", before=(_PERSON,), body=_login("{case}")),
    Case(route="DELETE /auth/tokens", before=(), refused=True),
    # Done eight times by who may, they would end the tokens of all the others.
    Case(route="POST /mooring/tokens/keys", user="demo", refused=True),
    Case(route="DELETE /mooring/tokens", user="demo", refused=True),
    Case(
        route="POST /users/{user_id}/application_credentials",
        path=_MINE,
        body={"application_credential": {"name": "app#"}},
        look=_MINE,
        kept='"app#"',
    ),
    Case(
        route="DELETE /users/{user_id}/application_credentials/{credential_id}",
        before=(
            Ask(
                "POST",
                _MINE,
                {"application_credential": {"name": "gone#"}},
                "credential#",
                "application_credential.id",
            ),
        ),
        path=f"{_MINE}/{{credential#}}",
        look=_MINE,
        gone='"gone#"',
    ),
    Case(route="POST /regions", body={"region": {"id": "new#"}}, look="/regions", kept='"new#"'),
    Case(
        route="PUT /regions/{region_id}",
        path="/regions/put#",
        body={"region": {}},
        look="/regions",
        kept='"put#"',
    ),
    Case(
        route="PATCH /regions/{region_id}",
        before=(Ask("POST", "/regions", {"region": {"id": "changed"}}),),
        path="/regions/changed",
        body={"region": {"word#": "kept"}},
        look="/regions/changed",
        kept='"word#"',
    ),
    Case(
        route="DELETE /regions/{region_id}",
        before=(Ask("POST", "/regions", {"region": {"id": "gone#"}}),),
        path="/regions/gone#",
        look="/regions",
        gone='"gone#"',
    ),
    Case(
        route="POST /services",
        body={"service": {"type": "new#"}},
        look="/services",
        kept='"new#"',
    ),
    Case(
        route="PATCH /services/{service_id}",
        before=(_SERVICE,),
        path="/services/{service}",
        body={"service": {"word#": "kept"}},
        look="/services/{service}",
        kept='"word#"',
    ),
    Case(
        route="DELETE /services/{service_id}",
        before=(
            Ask("POST", "/services", {"service": {"type": "gone#"}}, "service#", "service.id"),
        ),
        path="/services/{service#}",
        look="/services",
        gone='"gone#"',
    ),
    Case(
        route="POST /endpoints",
        before=(_SERVICE,),
        body={"endpoint": {**_ENDPOINT, "url": "http://cloud.test/new#"}},
        look="/endpoints",
        kept="http://cloud.test/new#",
    ),
    Case(
        route="PATCH /endpoints/{endpoint_id}",
        before=(
            _SERVICE,
            Ask(
                "POST",
                "/endpoints",
                {"endpoint": {**_ENDPOINT, "url": "http://cloud.test/changed"}},
                "endpoint",
                "endpoint.id",
            ),
        ),
        path="/endpoints/{endpoint}",
        body={"endpoint": {"word#": "kept"}},
        look="/endpoints/{endpoint}",
        kept='"word#"',
    ),
    Case(
        route="DELETE /endpoints/{endpoint_id}",
        before=(
            _SERVICE,
            Ask(
                "POST",
                "/endpoints",
                {"endpoint": {**_ENDPOINT, "url": "http://cloud.test/gone#"}},
                "endpoint#",
                "endpoint.id",
            ),
        ),
        path="/endpoints/{endpoint#}",
        look="/endpoints",
        gone="http://cloud.test/gone#",
    ),
]
