"""The wire between a store and PostgreSQL, which a test may cut at a word that passes."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Cut = Literal["", "before", "after"]
_SOCKET = ".s.PGSQL.5432"
_CHUNK = 65536


def at_word(word: bytes, cut: Cut, *, times: int = 1) -> Callable[[bytes], Cut]:
    """Return a rule that cuts the wire the first `times` that a word is sent to the server."""
    left = [times]

    def rule(sent: bytes) -> Cut:
        if left[0] > 0 and word in sent:
            left[0] -= 1
            return cut
        return ""

    return rule


class Wire:
    """A socket that hands everything on to the server, as long as its rule lets it.

    The rule sees what a client sends. `before` cuts the connection without handing it on; `after`
    hands it on, waits for the answer and cuts the connection instead of giving it back.
    """

    def __init__(self, server: Path, directory: Path) -> None:
        self.directory, self._server = directory, server / _SOCKET
        self.rule: Callable[[bytes], Cut] = at_word(b"", "", times=0)
        self.cuts = 0
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(directory / _SOCKET))
        self._door.listen(64)
        threading.Thread(target=self._open, daemon=True).start()

    def close(self) -> None:
        self._door.close()

    def _open(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(self._server))
        muted = threading.Event()
        back = threading.Thread(target=self._hand_back, args=(server, client, muted), daemon=True)
        back.start()
        with contextlib.suppress(OSError), client, server:
            while sent := client.recv(_CHUNK):
                cut = self.rule(sent)
                self.cuts += bool(cut)
                if cut == "before":
                    break
                if cut == "after":
                    muted.set()
                server.sendall(sent)
                if cut == "after":
                    back.join(10)
                    break
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)

    def _hand_back(
        self, server: socket.socket, client: socket.socket, muted: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while answer := server.recv(_CHUNK):
                if muted.is_set():
                    break
                client.sendall(answer)
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def wire(server: Path) -> Generator[Wire]:
    """A wire to the server whose socket is in a directory, for as long as the block lasts."""
    # A socket's path is short, so not below a test's own directory.
    directory = Path(tempfile.mkdtemp(prefix="mooring-wire-"))
    made = Wire(server, directory)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(directory)
