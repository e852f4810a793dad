"""Who may write to the disk that a server has on its host, while that is copied to another host.

Each host has a file of its own, and while one is copied both are locked: the emulator that is to
have the guest writes what it is sent. So here a guest may write where it runs, as the host's daemon
says, and its host's file is locked, as QEMU's locks say.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.hosts.moving_cloud import MovingCloud, holds

RUNNING = 16
"""Libvirt's word for guests that run, when it is asked for a list of them."""


class LocalLedger(threading.Thread):
    """Samples, until told to end, at which hosts a server's guest may write to its disk.

    `images` has the file that each host has of it, or is to have.
    """

    def __init__(self, cloud: MovingCloud, server_id: str, images: Mapping[str, Path]) -> None:
        super().__init__(daemon=True)
        self._cloud, self._server_id, self._images = cloud, server_id, images
        self._is_over = threading.Event()
        self.writers: list[str] = []
        """The hosts where it was seen to be able to write, one after the other."""
        self.doubles: list[list[str]] = []
        """Hosts where it was able to at one time."""
        self.shared: list[tuple[str, list[int]]] = []
        """Hosts whose file several emulators had at one time."""
        self.copied = 0
        """How often both files were seen to be locked, as they are while one is copied."""
        self.samples = 0

    def run(self) -> None:
        with ExitStack() as stack:
            open_daemon = self._cloud.daemon
            daemons = {one: stack.enter_context(open_daemon(one)) for one in self._images}
            while not self._is_over.wait(0.02):
                self._sample(daemons)

    def end(self) -> None:
        """Sample no more."""
        self._is_over.set()
        self.join()

    def _sample(self, daemons: Mapping[str, Any]) -> None:
        held = self._held()
        writing = self._writing(daemons, held)
        self.samples += 1
        self.copied += all(held.values())
        self.writers += [one for one in writing if self.writers[-1:] != [one]]
        # The looks are not at one time: only what was so before and after was so meanwhile.
        again = self._held()
        self.shared += [(one, held[one]) for one in held if len({*held[one]} & {*again[one]}) > 1]
        if len(writing) > 1 and self._writing(daemons, again) == writing:
            self.doubles.append(writing)

    def _held(self) -> dict[str, list[int]]:
        """Return the emulators that have each host's file locked to write to it."""
        pids = self._cloud.emulators(self._server_id)
        found: dict[str, list[int]] = {}
        for host, image in self._images.items():
            try:
                inode = image.stat().st_ino
            except FileNotFoundError:
                found[host] = []
            else:
                found[host] = [pid for pid in pids if holds(pid, inode)]
        return found

    def _writing(self, daemons: Mapping[str, Any], held: Mapping[str, list[int]]) -> list[str]:
        return [host for host in self._images if held[host] and self._runs(daemons[host])]

    def _runs(self, daemon: Any) -> bool:
        running = daemon.listAllDomains(RUNNING)
        return f"mooring-{self._server_id}" in {one.name() for one in running}
