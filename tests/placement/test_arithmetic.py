from __future__ import annotations

import asyncio
import tempfile
from fractions import Fraction
from uuid import uuid4

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mooring.placement import arithmetic
from mooring.placement.inventories import Inventory
from tests.placement.cloud import PlacementCloud

AMOUNTS = st.integers(1, 40)


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    total = draw(AMOUNTS)
    return Inventory(
        total=total,
        reserved=draw(st.integers(0, total)),
        min_unit=draw(st.integers(1, 4)),
        max_unit=draw(st.integers(1, 30)),
        step_size=draw(st.integers(1, 4)),
        allocation_ratio=draw(st.sampled_from([0.0, 0.5, 1.0, 1.5, 4.0, 16.0])),
    )


@given(inventories(), st.integers(0, 700), AMOUNTS)
@example(Inventory(total=4), 3, 1)  # the last piece
@example(Inventory(total=4), 4, 1)
@example(Inventory(total=4, reserved=1), 3, 1)  # kept back
@example(Inventory(total=4, allocation_ratio=2.0), 4, 1)  # given twice
@example(Inventory(total=8, step_size=2), 0, 3)  # no whole step
def test_an_amount_fits_exactly_when_every_bound_holds(
    stock: Inventory, used: int, amount: int
) -> None:
    room = Fraction(stock.total - stock.reserved) * Fraction(stock.allocation_ratio)
    fits = (
        used + amount <= room
        and stock.min_unit <= amount <= stock.max_unit
        and amount % stock.step_size == 0
    )
    assert (arithmetic.refusal(stock, used, amount) == "") == fits


@given(inventories(), st.lists(st.tuples(st.sampled_from("abc"), AMOUNTS), max_size=12))
@settings(max_examples=15, deadline=None)
def test_no_history_of_claims_allocates_above_capacity(
    stock: Inventory, wishes: list[tuple[str, int]]
) -> None:
    asyncio.run(history(stock, wishes))


async def history(stock: Inventory, wishes: list[tuple[str, int]]) -> None:
    """Claim and give back by turns: what is used is what was granted, and never too much.

    A consumer that claims again replaces what it held.
    """
    with tempfile.TemporaryDirectory() as folder:
        async with PlacementCloud(folder, inline=True) as cloud:
            fields = {name: getattr(stock, name) for name in stock.__struct_fields__}
            uuid = await cloud.provider(VCPU=fields)
            consumers = {name: str(uuid4()) for name in "abc"}
            held: dict[str, tuple[int, int]] = {}
            for name, amount in wishes:
                old, generation = held.get(name, (0, 0))
                others = sum(each for each, _ in held.values()) - old
                answer = await cloud.claim(
                    consumers[name], {uuid: {"VCPU": amount}}, generation=generation or None
                )
                fits = not arithmetic.refusal(stock, others, amount)
                assert (answer.status == 204) == fits, answer.text
                if fits:
                    held[name] = (amount, generation + 1)
                used = (await cloud.used(uuid))["VCPU"]
                assert used == sum(each for each, _ in held.values())
                assert used <= arithmetic.capacity(stock)
