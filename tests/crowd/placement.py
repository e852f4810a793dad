"""Placement's writing routes. Most compare generations, so of eight that saw the same one wins."""

from __future__ import annotations

from typing import Any

from tests.crowd.case import Ask, Case

PROVIDER = Ask("POST", "/resource_providers", {"name": "{case}"}, "provider", "uuid")
PROVIDERS = Ask("POST", "/resource_providers", {"name": "{case}#"}, "provider#", "uuid")
_AT = "/resource_providers/{provider}"
_ALL = "/resource_providers/{provider_id}"
_SEEN = {"resource_provider_generation": 0}
_CLASS = Ask("PUT", "/resource_classes/CUSTOM_{CASE}#")
_TRAIT = Ask("PUT", "/traits/CUSTOM_{CASE}#")
STOCK = Ask("PUT", f"{_AT}/inventories", {**_SEEN, "inventories": {"VCPU": {"total": 64}}})
_OWNER = {"project_id": "p", "user_id": "u", "consumer_type": "TEST"}
_CLAIM: dict[str, Any] = {
    **_OWNER,
    "consumer_generation": None,
    "allocations": {"{provider}": {"resources": {"VCPU": 1}}},
}
_CONSUMER = "00000000-0000-4000-8000-{case12}#"
_CLAIMED = Ask("PUT", f"/allocations/{_CONSUMER}", _CLAIM)

CASES = [
    Case(
        route="POST /resource_providers",
        body={"name": "new#"},
        look="/resource_providers",
        kept='"new#"',
    ),
    Case(
        route=f"PUT {_ALL}",
        before=(PROVIDER,),
        path=_AT,
        body={"name": "{case}-#"},
        look=_AT,
        one='"{case}-#"',
    ),
    Case(
        route=f"DELETE {_ALL}",
        before=(PROVIDERS,),
        path="/resource_providers/{provider#}",
        look="/resource_providers",
        gone="{provider#}",
    ),
    Case(
        route=f"PUT {_ALL}/inventories",
        before=(PROVIDER,),
        path=f"{_AT}/inventories",
        body={**_SEEN, "inventories": {"VCPU": {"total": 1}, "DISK_GB": {"total": 1000}}},
        alone=True,
    ),
    Case(
        route=f"DELETE {_ALL}/inventories",
        before=(PROVIDER, STOCK),
        path=f"{_AT}/inventories",
        look=f"{_AT}/inventories",
        gone='"VCPU"',
    ),
    Case(
        route=f"POST {_ALL}/inventories",
        before=(PROVIDER, _CLASS),
        path=f"{_AT}/inventories",
        body={**_SEEN, "resource_class": "CUSTOM_{CASE}#", "total": 1},
        look=f"{_AT}/inventories",
        kept='"CUSTOM_{CASE}#"',
    ),
    Case(
        route=f"PUT {_ALL}/inventories/{{resource_class}}",
        before=(PROVIDER, STOCK),
        path=f"{_AT}/inventories/VCPU",
        body={"resource_provider_generation": 1, "total": 70},
        alone=True,
    ),
    Case(
        route=f"DELETE {_ALL}/inventories/{{resource_class}}",
        before=(PROVIDER, STOCK),
        path=f"{_AT}/inventories/VCPU",
        look=f"{_AT}/inventories",
        gone='"VCPU"',
    ),
    Case(
        route=f"PUT {_ALL}/aggregates",
        before=(PROVIDER,),
        path=f"{_AT}/aggregates",
        body={**_SEEN, "aggregates": ["00000000-0000-4000-8000-00000000000#"]},
        alone=True,
        look=f"{_AT}/aggregates",
        kept="00000000000#",
    ),
    Case(
        route="POST /resource_classes",
        body={"name": "CUSTOM_NEW#"},
        look="/resource_classes",
        kept='"CUSTOM_NEW#"',
    ),
    Case(
        route="PUT /resource_classes/{name}",
        path="/resource_classes/CUSTOM_PUT#",
        look="/resource_classes",
        kept='"CUSTOM_PUT#"',
    ),
    Case(
        route="DELETE /resource_classes/{name}",
        before=(_CLASS,),
        path=_CLASS.path,
        look="/resource_classes",
        gone='"CUSTOM_{CASE}#"',
    ),
    Case(
        route="PUT /traits/{name}",
        path="/traits/CUSTOM_PUT#",
        look="/traits",
        kept='"CUSTOM_PUT#"',
    ),
    Case(
        route="DELETE /traits/{name}",
        before=(_TRAIT,),
        path=_TRAIT.path,
        look="/traits",
        gone='"CUSTOM_{CASE}#"',
    ),
    Case(
        route=f"PUT {_ALL}/traits",
        before=(PROVIDER, _TRAIT),
        path=f"{_AT}/traits",
        body={**_SEEN, "traits": ["CUSTOM_{CASE}#"]},
        alone=True,
        look=f"{_AT}/traits",
        kept='"CUSTOM_{CASE}#"',
    ),
    Case(
        route=f"DELETE {_ALL}/traits",
        before=(PROVIDER, Ask("PUT", f"{_AT}/traits", {**_SEEN, "traits": ["HW_CPU_X86_AVX"]})),
        path=f"{_AT}/traits",
        look=f"{_AT}/traits",
        gone="HW_CPU_X86_AVX",
    ),
    Case(
        route="PUT /allocations/{consumer_id}",
        before=(PROVIDER, STOCK),
        path=f"/allocations/{_CONSUMER}",
        body=_CLAIM,
        look=f"{_AT}/allocations",
        kept=_CONSUMER,
    ),
    Case(
        route="DELETE /allocations/{consumer_id}",
        before=(PROVIDER, STOCK, _CLAIMED),
        path=f"/allocations/{_CONSUMER}",
        look=f"{_AT}/allocations",
        gone=_CONSUMER,
    ),
    Case(
        route="POST /allocations",
        before=(PROVIDER, STOCK),
        body={_CONSUMER: _CLAIM},
        look=f"{_AT}/allocations",
        kept=_CONSUMER,
    ),
    Case(
        route="POST /reshaper",
        user="compute",
        before=(PROVIDER, STOCK),
        body={
            "inventories": {
                "{provider}": {
                    "resource_provider_generation": 1,
                    "inventories": {"VCPU": {"total": 7}},
                }
            },
            "allocations": {_CONSUMER: _CLAIM},
        },
        alone=True,
        look=f"{_AT}/allocations",
        kept=_CONSUMER,
    ),
]
