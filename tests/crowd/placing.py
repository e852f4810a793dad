"""The compute service's writing routes that decide where servers go."""

from __future__ import annotations

from tests.crowd.case import Ask, Case

GROUPS = Ask(
    "POST",
    "/os-server-groups",
    {"server_group": {"name": "{case}#", "policy": "affinity"}},
    "g#",
    "server_group.id",
)
AGGREGATE = Ask("POST", "/os-aggregates", {"aggregate": {"name": "{case}"}}, "a", "aggregate.id")
AGGREGATES = Ask("POST", "/os-aggregates", {"aggregate": {"name": "{case}#"}}, "a#", "aggregate.id")
_AGGREGATE_AT, _AGGREGATE_ALL = "/os-aggregates/{a}", "/os-aggregates/{aggregate_id}"
CASES = [
    Case(
        route="POST /os-aggregates",
        body={"aggregate": {"name": "{case}-new#", "availability_zone": "{case}#"}},
        look="/os-aggregates",
        kept='"{case}-new#"',
    ),
    Case(
        route=f"PUT {_AGGREGATE_ALL}",
        before=(AGGREGATE,),
        path=_AGGREGATE_AT,
        body={"aggregate": {"name": "{case}-#"}},
        look=_AGGREGATE_AT,
        one='"{case}-#"',
    ),
    Case(
        route=f"DELETE {_AGGREGATE_ALL}",
        before=(AGGREGATES,),
        path="/os-aggregates/{a#}",
        look="/os-aggregates",
        gone='"{case}#"',
    ),
    Case(
        route=f"POST {_AGGREGATE_ALL}/action add_host",
        before=(AGGREGATES,),
        path="/os-aggregates/{a#}/action",
        body={"add_host": {"host": "{host}"}},
        look="/os-aggregates/{a#}",
        kept='"hosts": ["{host}"]',
    ),
    Case(
        route=f"POST {_AGGREGATE_ALL}/action remove_host",
        before=(
            AGGREGATE,
            Ask("POST", f"{_AGGREGATE_AT}/action", {"add_host": {"host": "{host}"}}),
        ),
        path=f"{_AGGREGATE_AT}/action",
        body={"remove_host": {"host": "{host}"}},
        look=_AGGREGATE_AT,
        kept='"hosts": []',
        alone=True,
    ),
    Case(
        route=f"POST {_AGGREGATE_ALL}/action set_metadata",
        before=(AGGREGATE,),
        path=f"{_AGGREGATE_AT}/action",
        body={"set_metadata": {"metadata": {"key#": "value#"}}},
        look=_AGGREGATE_AT,
        kept='"key#": "value#"',
    ),
    Case(
        route=f"POST {_AGGREGATE_ALL}/images",
        before=(AGGREGATE,),
        path=f"{_AGGREGATE_AT}/images",
        body={"cache": [{"id": "{image}"}]},
        refused=True,
    ),
    Case(
        route="POST /os-server-groups",
        body={"server_group": {"name": "{case}-new#", "policy": "affinity"}},
        look="/os-server-groups",
        kept='"{case}-new#"',
    ),
    Case(
        route="DELETE /os-server-groups/{group_id}",
        before=(GROUPS,),
        path="/os-server-groups/{g#}",
        look="/os-server-groups",
        gone='"{case}#"',
    ),
]
