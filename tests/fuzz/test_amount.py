"""How many requests `make fuzz` sends is what its caller says, else what it always sent."""

from __future__ import annotations

import pytest

from tests.fuzz.amount import count_seeds


@pytest.mark.parametrize(
    ("said", "seeds"),
    [({}, 200), ({"FUZZ_REQUESTS": ""}, 200), ({"FUZZ_REQUESTS": "1000000"}, 2000)],
)
def test_as_many_seeds_are_sent_as_their_requests_take(said: dict[str, str], seeds: int) -> None:
    assert count_seeds(said, 250) == seeds


@pytest.mark.parametrize("few", ["1", "499", "500"])
def test_no_number_is_so_small_that_nothing_is_sent(few: str) -> None:
    assert count_seeds({"FUZZ_REQUESTS": few}, 250) == 1


@pytest.mark.parametrize("wrong", ["0", "-5", "many", "1e6"])
def test_what_is_no_number_of_requests_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="FUZZ_REQUESTS"):
        count_seeds({"FUZZ_REQUESTS": wrong}, 250)
