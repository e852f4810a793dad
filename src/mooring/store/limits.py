"""Limits of what databases keep of the past."""

from __future__ import annotations

PRUNE_REST_S = 0.05
"""How long it rests between two of them."""

SAGA_KEEP_S = 30 * 86400.0
"""How long an operation that has ended is shown by `mooring operations`."""

SAGA_ROWS = 100_000
"""Operations of one service, 2.8 KiB each, beyond which those that ended first go earlier."""

SAGA_LEAST_S = 86400.0
"""But none before this: yesterday's failure is still to be found."""

SAGA_LINES = 1000
"""Lines of an operation's timeline: one that is tried for weeks keeps the newest."""

SIGNAL_KEEP_S = 86400.0
"""How long a signal waits for an operation that has use for it."""

SIGNAL_ROWS = 100_000
"""Signals of one service beyond which the oldest go earlier."""

SIGNAL_LEAST_S = 3600.0
"""But none before this: an operation that has use for one gets from its request to it by then."""

MESSAGE_ROWS = 100_000
"""User messages of a service beyond which the oldest go earlier."""

MESSAGE_LEAST_S = 86400.0
"""But none before this: a user looks for them the next morning."""

COMPUTE_DELETED_ROWS = 100_000
"""Deleted servers beyond which the oldest go before `deleted_servers_days`: 5 KiB each."""

COMPUTE_DELETED_LEAST_S = 86400.0
"""But none before this: who follows changes by `changes-since` must see the deletion."""

COMPUTE_ACTIONS = 1000
"""Actions of a server that are kept, the newest ones."""

COMPUTE_FAULTS = 100
"""Faults of a server that are kept; the newest is the one that is shown."""

COMPUTE_MOVES = 100
"""Moves of a server that are kept once they ended, the newest ones."""

COMPUTE_CONSOLE_TOKENS = 16
"""Tokens of a server's console that are good at a time, the newest ones."""

COMPUTE_CONSOLE_ROWS = 100_000
"""Tokens of consoles beyond which the oldest go before they expire: 300 bytes each."""

IMAGE_FORMER_IDS = 100_000
"""Ids of deleted images that are remembered of each project, 100 bytes each: beyond that it may
harm itself, and nobody else, by an image of an id that it has deleted."""

PRUNE_EVERY_S = 600.0
"""How often each process of the control plane takes away rows that are needed no more."""

PRUNE_AT_ONCE = 100
"""How many it takes away in one transaction: other writes wait for it."""
