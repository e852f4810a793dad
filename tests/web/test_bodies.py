"""One struct says what a body is in every microversion."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import UNSET, Meta, Struct, UnsetType

from mooring.errors import Invalid
from mooring.web import body
from mooring.web.api import Api, Call, Reply, Version
from mooring.web.bodies import Gap, Required, Since, Until, Was


class Berth(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a boat lies."""

    pier: str
    number: Annotated[int, Since(1, 5)] = 0


class Boat(Struct, frozen=True):
    """A boat."""

    name: str
    length: Annotated[int | UnsetType, Since(1, 2), Required(1, 2)] = UNSET
    colour: Annotated[str, Until(1, 3)] = "white"
    flag: Annotated[str, Gap((1, 2), (1, 4)), Required(1, 6)] = "none"
    berths: Annotated[
        dict[str, Berth] | list[str], Was(list[str], (1, 1)), Was(dict[str, Berth], (9, 9))
    ] = msgspec.field(default_factory=dict[str, Berth])
    crew: dict[Annotated[str, Meta(min_length=1)], str] = msgspec.field(
        default_factory=dict[str, str]
    )


api = Api[Any]()


@api.post("/boats", Boat, key="boat", closed_since=(1, 4), policy=None)
async def launch(call: Call[Any], boat: Boat) -> Reply:
    """Launch a boat."""
    return Reply(201, boat.name)


@api.put("/berths", Berth, key="berth", only_key=True, policy=None)
async def move(call: Call[Any], berth: Berth) -> Reply:
    """Move a boat."""
    return Reply(200, berth.pier)


BOATS, BERTHS = api.routes


def read(content: Any, version: Version, *, route: Any = BOATS) -> Any:
    return body.decode(route, msgspec.json.encode(content), version)


def boat(content: dict[str, Any], version: Version) -> Boat:
    found = read({"boat": {"name": "ark", **content}}, version)
    assert type(found) is Boat
    return found


def test_a_field_before_its_version_is_an_unknown_key() -> None:
    assert boat({"length": "long"}, (1, 1)).length is UNSET
    assert boat({"length": 3}, (1, 2)).length == 3


def test_a_field_after_its_version_is_an_unknown_key() -> None:
    assert boat({"length": 1, "colour": "red"}, (1, 3)).colour == "red"
    with pytest.raises(Invalid, match=r"attribute boat\. .*unknown field `colour`"):
        boat({"length": 1, "colour": "red"}, (1, 4))


def test_a_required_field_is_missed_from_its_version_on() -> None:
    assert boat({}, (1, 1)) == Boat(name="ark")
    with pytest.raises(Invalid, match="missing required field `length`"):
        boat({}, (1, 2))


def test_a_field_may_be_gone_for_a_while() -> None:
    for version in ((1, 1), (1, 5)):
        assert boat({"length": 1, "flag": "red"}, version).flag == "red"
    for version in ((1, 2), (1, 3)):
        assert boat({"length": 1, "flag": "red"}, version).flag == "none"
    with pytest.raises(Invalid, match="unknown field `flag`"):
        boat({"length": 1, "flag": "red"}, (1, 4))


def test_a_field_that_could_be_left_out_is_missed_from_a_version_on() -> None:
    assert boat({"length": 1}, (1, 5)).flag == "none"
    with pytest.raises(Invalid, match="missing required field `flag`"):
        boat({"length": 1}, (1, 6))


def test_unknown_keys_are_refused_from_a_version_on() -> None:
    assert boat({"length": 1, "sails": 2}, (1, 3)).length == 1
    with pytest.raises(Invalid, match="unknown field `sails`"):
        boat({"length": 1, "sails": 2}, (1, 4))


def test_a_field_is_of_its_versions_kind() -> None:
    assert boat({"berths": ["a"]}, (1, 1)).berths == ["a"]
    with pytest.raises(Invalid, match=r"boat\.berths\. Expected `object`"):
        boat({"length": 1, "berths": ["a"]}, (1, 2))


def test_structs_inside_follow_the_version_too() -> None:
    here = {"length": 1, "berths": {"b": {"pier": "north", "number": 7}}}
    assert boat(here, (1, 5)).berths == {"b": Berth(pier="north", number=7)}
    with pytest.raises(Invalid, match=r"boat\.berths\[\.\.\.\]\. .*unknown field `number`"):
        boat(here, (1, 4))
    there = boat({"length": 1, "berths": {"b": {"pier": "north"}}}, (1, 4)).berths
    assert there == {"b": Berth(pier="north")}


def test_a_key_that_does_not_fit_is_told_with_the_field_it_is_in() -> None:
    with pytest.raises(Invalid) as told:
        boat({"length": 1, "crew": {"": "ann"}}, (1, 2))
    assert str(told.value) == (
        "Invalid input for field/attribute boat.crew. Expected `str` of length >= 1 as each key."
    )


@pytest.mark.parametrize("content", [{}, {"boats": {}}, [], None])
def test_the_key_must_be_there(content: Any) -> None:
    with pytest.raises(Invalid, match="the request's body"):
        read(content, (1, 0))


def test_other_keys_beside_it_are_refused_where_the_route_says_so() -> None:
    assert read({"boat": {"name": "ark"}, "x": 1}, (1, 0)) == Boat(name="ark")
    with pytest.raises(Invalid, match="unknown field `x`"):
        read({"berth": {"pier": "n"}, "x": 1}, (1, 0), route=BERTHS)
