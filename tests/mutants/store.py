"""Faults seeded in the stores, in what rests, and in what ends a token."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TROUBLE, PREPARED = "tests/store/test_trouble.py", "tests/store/test_prepared.py"
STEPS_OF_CLOCK = "tests/saga/test_clock.py"

MUTANTS = [
    Mutant(
        "a lost transaction is the step's answer",
        "saga/teller.py",
        "a lost transaction is no answer.\n            if failures.is_of_database(error):",
        "a lost transaction is one.\n            if not failures:",
        "tests/saga/test_trouble.py",
        "takes_back",
    ),
    Mutant(
        "a commit that was not answered counts as lost",
        "store/postgresql.py",
        'return outcome == "committed"',
        "return False",
        TROUBLE,
        "not_answered_counts",
    ),
    Mutant(
        "what may have been committed is run again",
        "store/failures.py",
        "None if isinstance(error, MooringError) else error",
        "error",
        TROUBLE,
        "nobody_can_settle",
    ),
    Mutant(
        "nothing is run again",
        "store/postgresql.py",
        "again = failures.may_pass(error) or",
        "again =",
        TROUBLE,
        "not_noticed",
    ),
    Mutant(
        "a race that was lost is an error",
        "store/postgresql.py",
        " or 0 < lost_races <= limits.STORE_LOST_RACES",
        "",
        TROUBLE,
        "slower_looks_again",
    ),
    Mutant(
        "what a write loads is not locked",
        "store/postgresql.py",
        "    if objects:\n",
        "    if not objects:\n",
        TROUBLE,
        "nobody_else_changes",
    ),
    Mutant(
        "a NUL in a body is let in",
        "web/body.py",
        "if _NUL.search(content):",
        "if not content and _NUL.search(content):",
        "tests/web/test_app.py",
        "nul",
    ),
    Mutant(
        "a rest ends by the time of day",
        "saga/timers.py",
        "return rest.due <= self._clock.monotonic() + TICK_S",
        "return until <= self._clock.now()",
        STEPS_OF_CLOCK,
        "sqlite",
    ),
    Mutant(
        "after a restart a rest has no bound",
        "saga/timers.py",
        "min((until - self._clock.now()).total_seconds(), longest_s)",
        "(until - self._clock.now()).total_seconds()",
        STEPS_OF_CLOCK,
        "sqlite",
    ),
    Mutant(
        "generations of tokens are not compared",
        "identity/tokens.py",
        "return token.generation == generation",
        "return generation is not None",
        "tests/identity/test_clock.py",
        "sqlite",
    ),
    Mutant(
        "what a savepoint took back stays",
        "store/call.py",
        'execute(link, "ROLLBACK TO SAVEPOINT part").close()',
        "del error",
        PREPARED,
        "sqlite and savepoint",
    ),
    Mutant(
        "two containers are one owner",
        "up.py",
        ":{secrets.token_hex(6)}",
        "",
        "tests/test_owner.py",
    ),
]
