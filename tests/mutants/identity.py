"""Faults seeded in the identity service."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        "passwords are not looked at",
        "identity/login.py",
        "    if not await callers.prove(identity, who, shown.password, hashed, caller):",
        "    if not user_id:",
        "tests/identity/test_login.py",
        "test_every_failed_login_is_the_same_401",
    ),
    Mutant(
        "the secret of a credential is not looked at",
        "identity/login.py",
        "callers.prove(identity, who, shown.secret, hashed, caller) or proven is None:",
        "callers.prove(identity, who, shown.secret, hashed, caller) and proven is None:",
        "tests/identity/test_application_credentials.py",
        "test_a_wrong_secret_is_401",
    ),
    Mutant(
        "many guesses at once are a way around",
        "identity/callers.py",
        "    async def admit() -> None:\n        identity.failures.check(",
        "    async def admit() -> None:\n        str(",
        "tests/identity/test_guessing.py",
        "test_many_guesses_at_once_are_no_way_around",
    ),
    Mutant(
        "one who guesses takes every turn",
        "identity/turns.py",
        "            if row:\n                self._rows[address] = row\n",
        "            if row:\n                self._rows[address] = row\n"
        "                self._rows.move_to_end(address, last=False)\n",
        "tests/identity/test_guessing.py",
        "test_turns_go_round_the_addresses",
    ),
    Mutant(
        "a delegated token gives another",
        "identity/login.py",
        "    if token.credential_id:\n        raise Forbidden(",
        "    if not token.user_id:\n        raise Forbidden(",
        "tests/identity/test_application_credentials.py",
        "test_its_token_cannot_be_exchanged",
    ),
    Mutant(
        "tokens never expire",
        "identity/tokens.py",
        "if known.expires_at <= now and not allow_expired:",
        "if known.expires_at <= now and not token:",
        "tests/identity/test_tokens.py",
        "test_the_local_validator_takes_expired_tokens_when_told",
    ),
    Mutant(
        "revoked tokens stand",
        "identity/tokens.py",
        "    if tx.execute(revoked).first() is not None:\n",
        "    if tx.execute(revoked).first() == ():\n",
        "tests/identity/test_tokens.py",
        "test_a_revoked_token_ends_and_others_of_the_user_live_on",
    ),
    Mutant(
        "a changed password ends no token",
        "identity/tokens.py",
        "return token.generation == generation",
        "return token.user_id is not None",
        "tests/identity/test_tokens.py",
        "test_disabling_a_user_ends_its_tokens_for_good",
    ),
    Mutant(
        "a disabled user goes on",
        "identity/standing.py",
        "if row is None or not row[1] or not row[4]:",
        "if row is None or not row[4]:",
        "tests/identity/test_tokens.py",
        "test_disabling_a_user_ends_its_tokens_for_good",
    ),
    Mutant(
        "a credential has all roles of its user",
        "identity/standing.py",
        "roles = {role_id: held[role_id] for role_id in row.role_ids}",
        "roles = held",
        "tests/identity/test_application_credentials.py",
        "test_a_secret_of_ones_own_and_a_name_will_do",
    ),
    Mutant(
        "a restricted credential makes others",
        "identity/credentials.py",
        "if worth.credential is not None and not worth.credential.unrestricted:",
        "if worth.credential is not None and worth.credential.unrestricted:",
        "tests/identity/test_application_credentials.py",
        "test_only_an_unrestricted_one_makes_and_deletes_others",
    ),
    Mutant(
        "roles are not implied",
        "identity/standing.py",
        "waiting += implied.get(role_id, [])",
        'waiting += implied.get("", [])',
        "tests/identity/test_login.py",
        "test_a_login_answers_with_a_short_token_and_the_catalogue",
    ),
    Mutant(
        "a token made from a token lives anew",
        "identity/login.py",
        "expires_at=(proven.expires_at or now + lifetime).replace",
        "expires_at=(now + lifetime).replace",
        "tests/identity/test_login.py",
        "exchange_keeps",
    ),
]
