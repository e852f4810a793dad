"""The compute service's writing routes behind which no operation stands, and those not built."""

from __future__ import annotations

from tests.crowd import on_servers, placing
from tests.crowd.case import Ask, Case
from tests.crowd.on_servers import SERVER

_AT, _ALL = on_servers.AT, on_servers.ALL
_FLAVOR = {"ram": 64, "vcpus": 1, "disk": 1}
FLAVOR = Ask(
    "POST",
    "/flavors",
    {"flavor": {"name": "{case}", **_FLAVOR, "os-flavor-access:is_public": False}},
    "f",
    "flavor.id",
)
FLAVORS = Ask("POST", "/flavors", {"flavor": {"name": "{case}#", **_FLAVOR}}, "f#", "flavor.id")
_PROJECT = Ask(
    "POST", "/identity/v3/projects", {"project": {"name": "{case}#"}}, "p#", "project.id"
)
_FLAVOR_AT, _FLAVOR_ALL = "/flavors/{f}", "/flavors/{flavor_id}"
NOT_BUILT = (
    *("addFixedIp", "addFloatingIp", "addSecurityGroup", "changePassword"),
    "injectNetworkInfo",
    *("os-getSPICEConsole", "os-getVNCConsole"),
    *("removeFixedIp", "removeFloatingIp", "removeSecurityGroup", "restore"),
    *("trigger_crash_dump", "os-getRDPConsole", "resetNetwork"),
)
_OLD = {"Fixed", "Floating", "Console"}


def _not_built(action: str) -> Case:
    version = "2.5" if any(word in action for word in _OLD) else "latest"
    return Case(
        route=f"POST {_ALL}/action {action}",
        body={action: {}},
        path="/servers/{server}/action",
        version=version,
        refused=True,
    )


_SERVERS = [
    Case(
        route=f"PUT {_ALL}",
        before=(SERVER,),
        path=_AT,
        body={"server": {"name": "{case}-#"}},
        look=_AT,
        one='"{case}-#"',
    ),
    on_servers.case("lock", {"locked_reason": "reason#"}, look=_AT, one='"reason#"'),
    on_servers.case("unlock", None, on_servers.act("lock"), shows='"locked": false'),
    on_servers.case("os-getConsoleOutput", {}),
    *(_not_built(action) for action in NOT_BUILT),
    on_servers.case("os-getSerialConsole", {"type": "serial"}, version="2.5"),
    Case(
        route=f"POST {_ALL}/remote-consoles",
        path="/servers/{server}/remote-consoles",
        before=(SERVER,),
        body={"remote_console": {"protocol": "serial", "type": "serial"}},
    ),
    Case(
        route=f"POST {_ALL}/os-interface",
        path="/servers/{server}/os-interface",
        body={},
        refused=True,
    ),
    Case(
        route=f"DELETE {_ALL}/os-interface/{{port_id}}",
        path="/servers/{server}/os-interface/port#",
        refused=True,
    ),
]
_META = f"{_AT}/metadata"
_TAGS = f"{_AT}/tags"
_METADATA = [
    Case(
        route=f"POST {_ALL}/metadata",
        before=(SERVER,),
        path=_META,
        body={"metadata": {"key#": "value#"}},
        look=_META,
        kept='"key#": "value#"',
    ),
    Case(
        route=f"PUT {_ALL}/metadata",
        before=(SERVER,),
        path=_META,
        body={"metadata": {"key#": "value#"}},
        look=_META,
        one='{"metadata": {"key#": "value#"}}',
    ),
    Case(
        route=f"PUT {_ALL}/metadata/{{key}}",
        before=(SERVER,),
        path=f"{_META}/key#",
        body={"meta": {"key#": "value#"}},
        look=_META,
        kept='"key#": "value#"',
    ),
    Case(
        route=f"DELETE {_ALL}/metadata/{{key}}",
        before=(SERVER, Ask("POST", _META, {"metadata": {"key#": "value#"}})),
        path=f"{_META}/key#",
        look=_META,
        gone='"key#"',
    ),
    Case(
        route=f"PUT {_ALL}/tags",
        before=(SERVER,),
        path=_TAGS,
        body={"tags": ["tag#"]},
        look=_TAGS,
        one='["tag#"]',
    ),
    Case(
        route=f"DELETE {_ALL}/tags",
        before=(SERVER, Ask("PUT", f"{_TAGS}/tag#")),
        path=_TAGS,
        look=_TAGS,
        gone='"tag#"',
    ),
    Case(
        route=f"PUT {_ALL}/tags/{{tag}}",
        before=(SERVER,),
        path=f"{_TAGS}/tag#",
        look=_TAGS,
        kept='"tag#"',
    ),
    Case(
        route=f"DELETE {_ALL}/tags/{{tag}}",
        before=(SERVER, Ask("PUT", f"{_TAGS}/tag#")),
        path=f"{_TAGS}/tag#",
        look=_TAGS,
        gone='"tag#"',
    ),
]
_FLAVORS = [
    Case(
        route="POST /flavors",
        body={"flavor": {"name": "{case}-new#", **_FLAVOR}},
        look="/flavors",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"PUT {_FLAVOR_ALL}",
        before=(FLAVOR,),
        path=_FLAVOR_AT,
        body={"flavor": {"description": "{case}-#"}},
        look=_FLAVOR_AT,
        one='"{case}-#"',
    ),
    Case(
        route=f"DELETE {_FLAVOR_ALL}",
        before=(FLAVORS,),
        path="/flavors/{f#}",
        look="/flavors",
        gone='"{case}#"',
    ),
    Case(
        route=f"POST {_FLAVOR_ALL}/os-extra_specs",
        before=(FLAVOR,),
        path=f"{_FLAVOR_AT}/os-extra_specs",
        body={"extra_specs": {"key#": "value#"}},
        look=f"{_FLAVOR_AT}/os-extra_specs",
        kept='"key#": "value#"',
    ),
    Case(
        route=f"PUT {_FLAVOR_ALL}/os-extra_specs/{{key}}",
        before=(FLAVOR,),
        path=f"{_FLAVOR_AT}/os-extra_specs/key#",
        body={"key#": "value#"},
        look=f"{_FLAVOR_AT}/os-extra_specs",
        kept='"key#": "value#"',
    ),
    Case(
        route=f"DELETE {_FLAVOR_ALL}/os-extra_specs/{{key}}",
        before=(
            FLAVOR,
            Ask("POST", f"{_FLAVOR_AT}/os-extra_specs", {"extra_specs": {"key#": "v"}}),
        ),
        path=f"{_FLAVOR_AT}/os-extra_specs/key#",
        look=f"{_FLAVOR_AT}/os-extra_specs",
        gone='"key#"',
    ),
    Case(
        route=f"POST {_FLAVOR_ALL}/action addTenantAccess",
        before=(FLAVOR, _PROJECT),
        path=f"{_FLAVOR_AT}/action",
        body={"addTenantAccess": {"tenant": "{p#}"}},
        look=f"{_FLAVOR_AT}/os-flavor-access",
        kept='"{p#}"',
    ),
    Case(
        route=f"POST {_FLAVOR_ALL}/action removeTenantAccess",
        before=(
            FLAVOR,
            _PROJECT,
            Ask("POST", f"{_FLAVOR_AT}/action", {"addTenantAccess": {"tenant": "{p#}"}}),
        ),
        path=f"{_FLAVOR_AT}/action",
        body={"removeTenantAccess": {"tenant": "{p#}"}},
        look=f"{_FLAVOR_AT}/os-flavor-access",
        gone='"{p#}"',
    ),
]
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"
_OPERATING = [
    Case(
        route="PUT /os-services/{action}",
        path="/os-services/disable",
        body={"host": "{host}", "binary": "nova-compute"},
        version="2.1",
        look="/os-services",
        kept='"disabled"',
    ),
    Case(
        route="PUT /os-services/{service_id}",
        path="/os-services/{service}",
        body={"status": "enabled"},
        look="/os-services",
        kept='"enabled"',
    ),
    Case(
        route="PUT /mooring/drains/{host}",
        look="/mooring/drains/{host}",
        kept='"draining"',
    ),
    Case(
        route="DELETE /mooring/drains/{host}",
        look="/os-services",
        kept='"enabled"',
    ),
    Case(
        route="DELETE /os-services/{service_id}",
        path="/os-services/00000000-0000-4000-8000-00000000000#",
        refused=True,
    ),
    Case(
        route="POST /os-keypairs",
        body={"keypair": {"name": "new#", "public_key": _KEY, "type": "ssh"}},
        look="/os-keypairs",
        kept='"new#"',
    ),
    Case(
        route="DELETE /os-keypairs/{name}",
        before=(
            Ask(
                "POST",
                "/os-keypairs",
                {"keypair": {"name": "gone#", "public_key": _KEY, "type": "ssh"}},
            ),
        ),
        path="/os-keypairs/gone#",
        look="/os-keypairs",
        gone='"gone#"',
    ),
    Case(
        route="PUT /os-quota-sets/{project_id}",
        path="/os-quota-sets/{project}",
        body={"quota_set": {"cores": 2000}},
        look="/os-quota-sets/{project}",
        kept='"cores": 2000',
    ),
    Case(
        route="DELETE /os-quota-sets/{project_id}",
        path="/os-quota-sets/{p0}",
        before=(_PROJECT, Ask("PUT", "/os-quota-sets/{p0}", {"quota_set": {"cores": 77}})),
        look="/os-quota-sets/{p0}",
        gone='"cores": 77',
    ),
    Case(
        route="PUT /os-quota-class-sets/{name}",
        path="/os-quota-class-sets/default",
        body={"quota_class_set": {"cores": 1000}},
        look="/os-quota-class-sets/default",
        kept='"cores": 1000',
    ),
    *(
        Case(route=f"POST /{what}", body={}, refused=True, version=version)
        for what, version in (
            ("os-networks", "2.1"),
            ("os-floating-ips", "2.1"),
            ("os-security-groups", "2.1"),
        )
    ),
]
CASES = [*_SERVERS, *_METADATA, *_FLAVORS, *_OPERATING, *placing.CASES]
