"""Every limit of the HTTP server, each with its reason; cited in the documentation."""

from __future__ import annotations

HTTP_HEAD_BYTES = 65536
"""Longest request line with its headers: a filter by a hundred ids takes 5 KiB of it."""

HTTP_HEADERS = 100
"""Most headers of a request: clients send about ten."""

HTTP_HEAD_WAIT_S = 20.0
"""How long a client may take to send them, and over TLS before that to shake hands."""

HTTP_LINGER_S = 0.5
"""How long the rest of a head that is too long is read, and dropped, behind the answer to it."""

HTTP_READ_WAIT_S = 60.0
"""How long a client may read nothing of its answer, once its buffers and the kernel's are full."""

HTTP_PIPELINED = 8
"""Most requests that wait on a connection for the answer to the one before them."""

HTTP_ACCEPTED = 64
"""Connections that are accepted before the next ones are bounded, and that may shake hands beside
as many as there may be."""

HTTP_ACCEPT_REST_S = 0.5
"""How long nobody is accepted when the process or the system has no files left."""

HTTP_ACCEPT_TOLD_S = 60.0
"""How often that is said at most."""

HTTP_REFUSALS = 10
"""Most callers that the log names in a while of those whom a listener, or a service that does not
know them yet, turned away."""

HTTP_REFUSALS_S = 60.0
"""How long that while is: at its end the log says how many others there were."""

HTTP_BACKLOG = 2048
"""Connections that wait in the kernel to be accepted."""

HTTP_CONNECTIONS = 4096
"""Most connections of a process, and at most half as many as it may have files open."""

TLS_BUFFER_BYTES = 17 * 1024
"""What is read of a connection over TLS at a time: a record with its frame. Each keeps as much."""

TLS_WAITING_BYTES = 65536
"""What may wait of a connection over TLS, to be read and to be sent: as much as without TLS."""

SOCKET_MESSAGE_BYTES = 64 * 1024
"""Longest message that is taken by websocket."""

SOCKET_PING_S = 20.0
"""How often the other end of a websocket is asked whether it is there, and how long it may take."""

SOCKET_END_S = 20.0
"""How long a websocket that has ended may take to be gone: its client may read how it did."""

CONSOLES = 256
"""Consoles of servers that are open through one process at a time; another one is refused."""

CONSOLE_IDLE_S = 3600.0
"""How long a console stays open over which nothing comes or goes."""

CONSOLE_S = 43_200.0
"""How long a console stays open at all: whoever needs it longer opens it again."""

CONSOLE_READ_S = 60.0
"""How long one side of a console, its client or the guest, may take nothing of what has come."""

CONSOLE_ASK_S = 20.0
"""How long one question for a guest's words waits at its host."""
