"""Faults seeded in the placement service."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "what is kept back is given away",
        "placement/arithmetic.py",
        "(stock.total - stock.reserved) * stock",
        "stock.total * stock",
        "tests/placement/test_arithmetic.py",
        "test_an_amount_fits_exactly_when_every_bound_holds",
    ),
    Mutant(
        "nothing is given away twice",
        "placement/arithmetic.py",
        "- stock.reserved) * stock.allocation_ratio)",
        "- stock.reserved))",
        "tests/placement/test_arithmetic.py",
        "test_an_amount_fits_exactly_when_every_bound_holds",
    ),
    Mutant(
        "any step will do",
        "placement/arithmetic.py",
        "if amount % stock.step_size:",
        "if amount < 0:",
        "tests/placement/test_arithmetic.py",
        "test_an_amount_fits_exactly_when_every_bound_holds",
    ),
    Mutant(
        "a consumer's generation is not compared",
        "placement/allocations.py",
        'ConsumerRow.generation == bindparam("of_generation")',
        'ConsumerRow.generation >= bindparam("of_generation")',
        "tests/placement/test_allocations.py",
        "test_a_stale_consumer_generation_is_told_in_novas_words",
    ),
    Mutant(
        "who holds nothing stays a consumer",
        "placement/allocations.py",
        "wish in wishes.items() if not wish.allocations]",
        "wish in wishes.items() if wish is None]",
        "tests/placement/test_allocations.py",
        "test_an_empty_claim_and_a_delete_end_the_consumer",
    ),
    Mutant(
        "a provider's generation is not compared",
        "placement/providers.py",
        "    if seen is None:\n        generation",
        "    if seen != -1:\n        generation",
        "tests/placement/test_inventories.py",
        "test_put_replaces_all_and_raises_the_generation",
    ),
    Mutant(
        "forbidden traits are welcome",
        "placement/candidates.py",
        "found.append(~exists().where(_has(kind, barred)))",
        "found.append(exists().where(_has(kind, barred)))",
        "tests/placement/test_candidates.py",
        "test_traits_tree_aggregates_and_limit_choose",
    ),
    Mutant(
        "all may be reserved from the first version on",
        "placement/inventories.py",
        "most = inventory.total if all_reserved else inventory.total - 1",
        "most = inventory.total",
        "tests/placement/test_inventories.py",
        "test_an_inventory_must_make_sense",
    ),
    Mutant(
        "a provider in use can be deleted",
        "placement/providers.py",
        "if tx.scalar(select(exists().where(AllocationRow.provider_id == provider_id))):",
        'if tx.scalar(select(exists().where(AllocationRow.provider_id == ""))):',
        "tests/placement/test_providers.py",
        "test_a_provider_that_is_used_stays",
    ),
    Mutant(
        "the last piece is never given",
        "placement/arithmetic.py",
        "if used + amount > capacity(stock):",
        "if used + amount >= capacity(stock):",
        "tests/placement/test_arithmetic.py",
        "test_an_amount_fits_exactly_when_every_bound_holds",
    ),
    Mutant(
        "lines of one request do not see each other",
        "placement/allocations.py",
        "        used[provider_id, name] = taken + amount\n",
        "        used[provider_id, name] = taken\n",
        "tests/placement/test_allocations.py",
        "counted_together",
    ),
]
