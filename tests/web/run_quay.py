"""A server over TLS as a process of its own, for tests that take its files away.

Argument: how many files it may have open. It says its port and the authority to trust, as JSON;
for the line `take` it opens all the files it may, for the next line it closes them.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import sys

from starlette.responses import PlainTextResponse

from mooring.http_server import listening
from tests.web.quay import show


async def main() -> None:
    held, context = show()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = PlainTextResponse("moored")
        async with listening(app, listener, context=context) as served:
            port = listener.getsockname()[1]
            tell(json.dumps({"port": port, "authority": held.authority.decode("ascii")}))
            loop = asyncio.get_running_loop()
            taken: list[int] = []
            loop.add_reader(sys.stdin, obey, taken)
            await served


def obey(taken: list[int]) -> None:
    """Take all files, or give them back."""
    if sys.stdin.readline() != "take\n":
        while taken:
            os.close(taken.pop())
        return
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        tell("taken")


def tell(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    files = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    asyncio.run(main())
