"""Who owns sagas: one process, of one start."""

from __future__ import annotations

from mooring.up import new_owner


def test_no_two_starts_have_one_owner() -> None:
    """Containers may share host name and process id, and a successor has them again."""
    assert len({new_owner() for _ in range(100)}) == 100


def test_an_owner_fits_its_column() -> None:
    assert len(new_owner()) <= 64
