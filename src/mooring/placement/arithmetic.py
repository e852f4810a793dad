"""The arithmetic of placement: how much there is, and whether an amount fits. Nothing else.

Source: facts/identity_image_placement.md 9.2.
"""

from __future__ import annotations

from typing import Protocol


class Stock(Protocol):
    """What the arithmetic needs to know of an inventory."""

    @property
    def total(self) -> int:
        """How much there is."""
        ...

    @property
    def reserved(self) -> int:
        """How much of it is kept back."""
        ...

    @property
    def min_unit(self) -> int:
        """The smallest amount of one allocation."""
        ...

    @property
    def max_unit(self) -> int:
        """The largest amount of one allocation."""
        ...

    @property
    def step_size(self) -> int:
        """What the amount of an allocation must be a multiple of."""
        ...

    @property
    def allocation_ratio(self) -> float:
        """How often the same piece may be given away."""
        ...


def capacity(stock: Stock) -> int:
    """Return how much may be allocated in all: (total - reserved) * allocation_ratio, whole."""
    return int((stock.total - stock.reserved) * stock.allocation_ratio)


def refusal(stock: Stock, used: int, amount: int) -> str:
    """Return why `amount` cannot be given beside what is used already; empty when it can."""
    return unit_refusal(stock, amount) or room_refusal(stock, used, amount)


def unit_refusal(stock: Stock, amount: int) -> str:
    """Return why so much is never given to one; empty when it may be."""
    if amount < stock.min_unit:
        return f"{amount} is less than the smallest unit, {stock.min_unit}"
    if amount > stock.max_unit:
        return f"{amount} is more than the largest unit, {stock.max_unit}"
    if amount % stock.step_size:
        return f"{amount} is not a multiple of the step size, {stock.step_size}"
    return ""


def room_refusal(stock: Stock, used: int, amount: int) -> str:
    """Return why there is no room for `amount` beside what is used already; empty when there is."""
    if used + amount > capacity(stock):
        return f"{amount} was asked for, {capacity(stock) - used} of {capacity(stock)} is free"
    return ""
