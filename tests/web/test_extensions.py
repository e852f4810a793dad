"""What is listed as an extension is there: its route is one that is built."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mooring.errors import NotFound
from mooring.web import extensions
from mooring.web.extensions import Extension
from tests.crowd.routes import routes_of


@pytest.mark.parametrize(
    ("service", "known"), [("compute", extensions.COMPUTE), ("volume", extensions.VOLUME)]
)
def test_each_extension_is_a_route_that_is_built(
    service: str, known: Mapping[str, Extension]
) -> None:
    built = {f"{one.method} {one.path} {one.action}".strip() for one in routes_of(service)}
    assert [one.route for one in known.values() if one.route not in built] == []
    listed = extensions.show_all(known)["extensions"]
    assert [one["alias"] for one in listed] == sorted(known)
    for one in listed:
        assert extensions.show(known, one["alias"]) == {"extension": one}
        keys = {"alias", "name", "description", "updated", "links", "namespace"}
        assert one.keys() == keys
        assert one["description"].endswith("."), "it is said what it is for"
    with pytest.raises(NotFound):
        extensions.show(known, "os-nobody")
