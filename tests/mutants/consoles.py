"""Seeded faults of serial consoles."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TESTS = "tests/compute/test_serial_consoles.py"
_PORTS = "tests/contract/test_serial.py"
_DOOR = "compute/consoles/api/serial_door.py"

MUTANTS = [
    Mutant(
        "a console's token is good at another host",
        "compute/consoles/consoles.py",
        " and server.host == found.host\n",
        "\n",
        _TESTS,
        "with_a_move",
    ),
    Mutant(
        "a console's token is good for ever",
        "compute/consoles/consoles.py",
        "        if found is None or found.expires_at <= now:\n",
        "        if found is None:\n",
        _TESTS,
        "good_for_a_while and sqlite",
    ),
    Mutant(
        "the token itself is kept",
        "compute/consoles/consoles.py",
        '    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()\n',
        "    return token\n",
        _TESTS,
        "good_for_a_while and sqlite",
    ),
    Mutant(
        "any page may open a console",
        _DOOR,
        "        if origin is not None and _place_of(origin) not in own:\n",
        "        if origin is None and _place_of(self._place) is None:\n",
        _TESTS,
        "another_place",
    ),
    Mutant(
        "what is typed twice is typed twice",
        "agent/serial_sessions.py",
        "            new = typed.data[self._typed - typed.after :]\n",
        "            new = typed.data\n",
        _PORTS,
        "comes_twice and simulated",
    ),
]
