"""What is left when a `nova-compute` is killed, and what becomes of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tests.beside.nova import HOSTS, Nova
from tests.beside.nova_story import expect
from tests.beside.programs import Failed
from tests.beside.steps import ask_doctor
from tests.beside.users import User
from tests.contract.clients import MIB

FIRST, THIRD = HOSTS[0], HOSTS[2]
BORROWED_FOR_S = 30
"""How long the volume service leaves a status to Nova; 600 unless it is told otherwise."""
SETTLES_S = 2.0 * BORROWED_FOR_S + 30.0


def kill_while(user: User, nova: Nova, volume: str, begin: Callable[[], None]) -> None:
    """Begin an attachment, and kill the third host when the volume service knows of it."""
    known = threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + 60.0
        while not user.attachments(volume) and time.monotonic() < deadline:
            pass
        nova.running.kill(THIRD)
        known.set()

    thread = threading.Thread(target=watch)
    thread.start()
    begin()
    thread.join()
    if not known.is_set():
        raise Failed("The host was not killed.")


def step(nova: Nova) -> Callable[[User], None]:
    """Return the step of a host that dies."""

    def dies(user: User) -> None:
        """Kill a host in the middle of an attach and of a detach; settle, evacuate, delete."""
        dies_and_is_evacuated(user, nova)

    return dies


def dies_and_is_evacuated(user: User, nova: Nova) -> None:
    """Kill a host in the middle of an attach, and of a detach; settle; evacuate; delete."""
    root, given, wanted = (
        user.make_volume(imageRef=user.make_image(bytes(MIB))),
        user.make_volume(),
        user.make_volume(),
    )
    server = user.make_server(root=root, host=THIRD)
    user.attach(server, given)
    kill_while(user, nova, wanted, lambda: user.begin_attach(server, wanted))
    user.begin_detach(server, given)
    expect(user.look(given)["status"], "detaching")
    expect(ask_doctor(user.cloud), 0)
    # Nova lists both, and tells so when it is asked: one can be detached again, the other waits.
    user.until_volume(given, "in-use", SETTLES_S)
    expect(user.look(wanted)["status"] in {"reserved", "in-use"}, True)
    expect(user.listed(server), sorted([root, given, wanted]))
    (service,) = [
        one["id"]
        for one in user.compute("GET", "/os-services?binary=nova-compute")["services"]
        if one["host"] == THIRD
    ]
    user.compute("PUT", f"/os-services/{service}", {"forced_down": True})
    user.act(server, "evacuate", {"host": FIRST})
    # From 2.95 on it is off afterwards.
    user.until_server(server, "SHUTOFF", host=FIRST)
    for volume in (root, given, wanted):
        user.until(lambda volume=volume: user.on_hosts(volume), lambda seen: seen == [FIRST])
    user.detach(server, wanted)
    user.remove([server], [root, given, wanted])
