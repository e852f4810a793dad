"""Every limit in one place, each with its reason; cited in the documentation."""

from __future__ import annotations

STORE_GROUP_WRITES = 64
"""Writes that one commit on SQLite may carry: the first waits for the last one's statements."""

STORE_READERS = 4
"""Threads and connections that read one service's SQLite file; they start when first needed."""

STORE_POOL_CONNECTIONS = 8
"""PostgreSQL connections of one service in one process, and the threads that use them."""

STORE_BUSY_TIMEOUT_S = 5.0
"""How long a write waits for another process that holds a SQLite file's write lock."""

WEB_BODY_BYTES = 114688
"""Largest JSON body of a request: what Nova and Cinder take; image data is streamed, not counted."""

WEB_BODY_WAIT_S = 60.0
"""How long a client may take to send a JSON body."""

WEB_PAGE_ROWS = 1000
"""Most rows of one page of a list: what Nova and Cinder give by default."""
