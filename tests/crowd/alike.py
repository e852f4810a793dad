"""What the volume service and the share service answer alike: metadata, and types."""

from __future__ import annotations

from msgspec.structs import replace

from tests.crowd.case import Ask, Case

_AT, _ALL = "/types/{type}", "/types/{type_id}"


def metadata_of(at: str, route: str, *before: Ask) -> list[Case]:
    """Return the cases of a resource's metadata, which is changed as a whole."""
    path, items = f"{at}/metadata", {"metadata": {"key#": "value#"}}
    here = Case(route="", path=path, before=before, body=items, look=path)
    return [
        replace(here, route=f"POST {route}/metadata", kept='"key#": "value#"'),
        replace(here, route=f"PUT {route}/metadata", one='{"metadata": {"key#": "value#"}}'),
        Case(
            route=f"DELETE {route}/metadata/{{key}}",
            before=(*before, Ask("POST", path, items)),
            path=f"{path}/key#",
            look=path,
            gone='"key#"',
        ),
    ]


def types_of(noun: str, private: Ask, public: Ask, access: str) -> list[Case]:
    """Return the cases of types. `private` makes one, `public` one for each client.

    `noun` is what a body is wrapped in; `access` is where those are listed who may use a type.
    """
    return [
        Case(route="POST /types", body=public.body, look="/types", kept='"{case}#"'),
        Case(
            route=f"PUT {_ALL}",
            before=(private,),
            path=_AT,
            body={noun: {"name": "{case}-#"}},
            look=_AT,
            one='"{case}-#"',
        ),
        Case(
            route=f"DELETE {_ALL}",
            before=(public,),
            path="/types/{type#}",
            look="/types",
            gone="{type#}",
        ),
        *_specs(private),
        *_accesses(private, access),
    ]


def _specs(private: Ask) -> list[Case]:
    path, shown = f"{_AT}/extra_specs", '"key#": "value#"'
    put = Ask("POST", path, {"extra_specs": {"key#": "v"}})
    here = Case(route="", before=(private,), path=f"{path}/key#", look=path)
    return [
        replace(
            here,
            route=f"POST {_ALL}/extra_specs",
            path=path,
            body={"extra_specs": {"key#": "value#"}},
            kept=shown,
        ),
        replace(here, route=f"PUT {_ALL}/extra_specs/{{key}}", body={"key#": "value#"}, kept=shown),
        replace(
            here,
            route=f"DELETE {_ALL}/extra_specs/{{key}}",
            before=(private, put),
            gone='"key#"',
        ),
    ]


def _accesses(private: Ask, access: str) -> list[Case]:
    project = {"project": "p#"}
    added = Ask("POST", f"{_AT}/action", {"addProjectAccess": project})
    here = Case(route="", path=f"{_AT}/action", look=f"{_AT}/{access}")
    return [
        replace(
            here,
            route=f"POST {_ALL}/action addProjectAccess",
            before=(private,),
            body=added.body,
            kept='"p#"',
        ),
        replace(
            here,
            route=f"POST {_ALL}/action removeProjectAccess",
            before=(private, added),
            body={"removeProjectAccess": project},
            gone='"p#"',
        ),
    ]
