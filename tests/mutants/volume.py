"""Faults seeded in the volume service."""

from __future__ import annotations

from tests.mutants.mutant import FAILING, STEPS, Mutant

MUTANTS = [
    Mutant(
        "an undo leaves the export",
        "volume/attachments/sagas/connect_attachment.py",
        "    if not notes.fresh:\n        return\n",
        "    return\n",
        STEPS,
        f"{FAILING} and connect_attachment",
    ),
]
