"""Networks for the real hosts of a lab: a namespace for each, and one for the bridge between them.

Source: facts/real_hosts.md 4. What is there already is kept: a lab whose `mooring up` was killed
goes on with its guests. The bridge is in a namespace too, so nobody else on the machine reaches
the hosts' daemons, which ask for no password.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from mooring.agent.run import SYSTEM_PATH, Budget, Output, Runner
from mooring.errors import Invalid, Unavailable
from mooring.fence.journal import Process

_PROGRAMS = {
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "setpriv": "util-linux",
    "libvirtd": "libvirt-daemon",
}
"""What real hosts are made with, by Debian's package."""
_NAMED = Path("/run/netns")
"""Where `ip netns` keeps a file for each namespace."""
_BRIDGE, _INSIDE = "bridge", "e0"


class Unnoted:
    """Notes of programs that are seen to their end at once."""

    async def note_process(self, pid: int, start_time: float, operation_key: str) -> None:
        del pid, start_time, operation_key

    async def forget_process(self, pid: int) -> None:
        del pid

    async def processes(self) -> list[Process]:
        return []


class Namespace(Struct, frozen=True, kw_only=True):
    """Where one host of a lab lives: its network namespace, and its address there."""

    number: int
    name: str
    address: str

    @property
    def file(self) -> Path:
        """What names it, and is there as long as it is."""
        return _NAMED / self.name


class Network:
    """The namespaces of one lab, which the path of its state directory names."""

    def __init__(self, state_path: Path) -> None:
        self._runner = Runner(Unnoted())
        mark = hashlib.sha256(os.fsencode(state_path)).hexdigest()[:8]
        # Two labs on one machine share no name.
        self._prefix = f"mooring-{mark}-"
        self._middle = f"{self._prefix}{_BRIDGE}"

    def namespace(self, number: int) -> Namespace:
        """Return that of one host, counted from 1, whether it is there or not."""
        name = f"{self._prefix}{number}"
        return Namespace(number=number, name=name, address=f"10.77.0.{number}")

    def standing(self) -> list[Namespace]:
        """Return the hosts' namespaces that are there, in order."""
        fits = re.compile(re.escape(self._prefix) + r"([1-9][0-9]*)")
        found = (fits.fullmatch(file.name) for file in _NAMED.glob(f"{self._prefix}*"))
        return [self.namespace(number) for number in sorted(int(one[1]) for one in found if one)]

    async def open(self, namespaces: Sequence[Namespace]) -> None:
        """Make what is missing. Raises Unavailable where this machine does not let us."""
        await self._add(self._middle)
        bridge = ("-n", self._middle, "link")
        if (await self._try(*bridge, "show", _BRIDGE)).code:
            await self._ip(*bridge, "add", _BRIDGE, "type", "bridge")
        await self._ip(*bridge, "set", _BRIDGE, "up")
        for each in namespaces:
            await self._join(each)

    async def close(self, namespaces: Sequence[Namespace]) -> None:
        """Take namespaces away, and the bridge with the last one. Raises Unavailable."""
        for each in namespaces:
            await self._try("-n", self._middle, "link", "del", _cable(each))
            await self._delete(each.name)
        if not self.standing():
            await self._delete(self._middle)

    async def _join(self, each: Namespace) -> None:
        """Give a namespace to a host, and a cable from there to the bridge."""
        await self._add(each.name)
        here, bridge = ("-n", each.name), ("-n", self._middle, "link")
        if (await self._try(*here, "link", "show", _INSIDE)).code:
            await self._try(*bridge, "del", _cable(each))
            other = ("peer", "name", _INSIDE, "netns", each.name)
            await self._ip(*bridge, "add", _cable(each), "type", "veth", *other)
        await self._ip(*bridge, "set", _cable(each), "master", _BRIDGE, "up")
        await self._ip(*here, "addr", "replace", f"{each.address}/24", "dev", _INSIDE)
        for link in (_INSIDE, "lo"):
            await self._ip(*here, "link", "set", link, "up")

    async def _add(self, name: str) -> None:
        # Killed in the middle, `ip` leaves a file that is no namespace.
        if (await self._try("-n", name, "link", "show", "lo")).code:
            await self._try("netns", "del", name)
            await self._ip("netns", "add", name)

    async def _delete(self, name: str) -> None:
        if (_NAMED / name).exists():
            await self._ip("netns", "del", name)

    async def _try(self, *words: str) -> Output:
        return await self._runner.run(["ip", *words], Budget())

    async def _ip(self, *words: str) -> None:
        done = await self._try(*words)
        if done.code:
            raise Unavailable(
                f"This machine does not let us keep namespaces: ip {' '.join(words)}: "
                f"{done.err.strip()[:200]}. Choose --hypervisor simulated, or another machine."
            )


def _cable(each: Namespace) -> str:
    return f"host-{each.number}"


async def check_able(hosts: int) -> None:
    """Raise Invalid, with what is missing, unless this process can make real hosts."""
    lacks = ["root's rights"] if os.geteuid() else []
    lacks += [
        f"the program {name} (package {package})"
        for name, package in _PROGRAMS.items()
        if shutil.which(name, path=SYSTEM_PATH) is None
    ]
    if find_spec("libvirt") is None:
        lacks.append("libvirt's Python binding (the extra `agent` of mooring)")
    if not lacks and (refusal := await _refusal()):
        lacks.append(f"the right to make namespaces ({refusal})")
    if lacks:
        raise Invalid(
            f"Making {hosts} real hosts of one machine takes {' and '.join(lacks)}, which this "
            "process has not. Leave --hosts out, or choose --hypervisor simulated."
        )


async def _refusal() -> str:
    """Return what the machine says against namespaces, "" for nothing."""
    tried = await Runner(Unnoted()).run(("unshare", "--net", "--mount", "--uts", "true"))
    return tried.err.strip()[:100] if tried.code else ""
