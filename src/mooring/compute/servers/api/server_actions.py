"""POST /servers/{server_id}/action: what is built of it (facts/compute.md 1.3, 1.4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from mooring.compute.hosts import hosts
from mooring.compute.servers import servers, states
from mooring.compute.service import Compute
from mooring.compute.tables import Server
from mooring.compute.wire.api.values import Whole, whole
from mooring.errors import Conflict, Invalid, NotFound
from mooring.web.api import Api, Call, Reply, Version

api = Api[Compute]()

PATH = "/servers/{server_id}/action"
_RULE = "os_compute_api:"


class Reboot(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `reboot`."""

    type: Literal["SOFT", "Soft", "soft", "HARD", "Hard", "hard"]


class ResetState(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-resetState`."""

    state: Literal["active", "error"]


class LockReason(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `lock` from 2.73 on."""

    locked_reason: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class ConsoleOutput(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-getConsoleOutput`: the last `length` lines, all of them for -1."""

    length: Whole | None = None


@api.action(PATH, "os-start", policy=f"{_RULE}servers:start")
async def start(call: Call[Compute]) -> Reply:
    """Start a stopped server."""
    await servers.start(call.service, call.who, call.path["server_id"])
    return Reply(202)


@api.action(PATH, "os-stop", policy=f"{_RULE}servers:stop")
async def stop(call: Call[Compute]) -> Reply:
    """Shut a server down."""
    await servers.stop(call.service, call.who, call.path["server_id"])
    return Reply(202)


@api.action(PATH, "reboot", Reboot, policy=f"{_RULE}servers:reboot")
async def reboot(call: Call[Compute], body: Reboot) -> Reply:
    """Restart the guest's system, or switch it off and on."""
    kind: Literal["SOFT", "HARD"] = "SOFT" if body.type.upper() == "SOFT" else "HARD"
    await servers.reboot(call.service, call.who, call.path["server_id"], kind)
    return Reply(202)


@api.action(PATH, "pause", policy=f"{_RULE}os-pause-server:pause")
async def pause(call: Call[Compute]) -> Reply:
    """Let a running server stand still."""
    await servers.pause(call.service, call.who, call.path["server_id"])
    return Reply(202)


@api.action(PATH, "unpause", policy=f"{_RULE}os-pause-server:unpause")
async def unpause(call: Call[Compute]) -> Reply:
    """Let a server that stands still run on."""
    await servers.unpause(call.service, call.who, call.path["server_id"])
    return Reply(202)


@api.action(PATH, "suspend", policy=f"{_RULE}os-suspend-server:suspend")
async def suspend(call: Call[Compute]) -> Reply:
    """Switch a server off, and keep its memory."""
    await servers.suspend(call.service, call.who, call.path["server_id"])
    return Reply(202)


@api.action(PATH, "resume", policy=f"{_RULE}os-suspend-server:resume")
async def resume(call: Call[Compute]) -> Reply:
    """Let a suspended server run on."""
    await servers.resume(call.service, call.who, call.path["server_id"])
    return Reply(202)


@api.action(PATH, "forceDelete", policy=f"{_RULE}os-deferred-delete:force")
async def force_delete(call: Call[Compute]) -> Reply:
    """Delete a server; every deletion is at once here."""
    await servers.delete(call.service, call.who, call.path["server_id"])
    return Reply(202)


@api.action(PATH, "os-resetState", ResetState, policy=f"{_RULE}os-admin-actions:reset_state")
async def reset_state(call: Call[Compute], body: ResetState) -> Reply:
    """End whatever holds a server, and say what state it is in."""
    await servers.reset_state(call.service, call.who, call.path["server_id"], body.state)
    return Reply(202)


@api.action(PATH, "lock", policy=f"{_RULE}os-lock-server:lock", until=(2, 72))
async def lock(call: Call[Compute]) -> Reply:
    """Keep everybody but administrators from changing a server."""
    await servers.lock(call.service, call.who, call.path["server_id"])
    return Reply(202)


@api.action(PATH, "lock", LockReason | None, policy=f"{_RULE}os-lock-server:lock", since=(2, 73))
async def lock_with_reason(call: Call[Compute], body: LockReason | None) -> Reply:
    """Do the same, and say why."""
    reason = body.locked_reason if body else None
    await servers.lock(call.service, call.who, call.path["server_id"], reason)
    return Reply(202)


@api.action(PATH, "unlock", policy=f"{_RULE}os-lock-server:unlock")
async def unlock(call: Call[Compute]) -> Reply:
    """Let everybody change a server again; an administrator's lock needs an administrator."""
    override = partial(call.require, f"{_RULE}os-lock-server:unlock:unlock_override")
    await servers.unlock(call.service, call.who, call.path["server_id"], override)
    return Reply(202)


@api.action(PATH, "os-getConsoleOutput", ConsoleOutput | None, policy=f"{_RULE}os-console-output")
async def read_console(call: Call[Compute], body: ConsoleOutput | None) -> Reply:
    """Return what the guest wrote to its serial console.

    `length` counts, as upstream does, what stands between newlines: the empty end behind the last
    newline is one of them. Clients that split the output get as many pieces as they asked for.
    """
    wanted = _read_length(body)
    server, compute = await _find(call), call.service
    if server.host is None or server.launched_at is None:
        raise Conflict(
            f"Instance {server.id} is not ready: it has no console yet. Try again later."
        )
    now, down_s = compute.clock.now(), compute.settings.host_down_s
    host = await compute.store.read(lambda tx: hosts.require_up(tx, server.host, now, down_s))
    try:
        output = await compute.agents[host.name].read_console(server.id, wanted)
    except NotFound as error:
        raise NotFound(f"Instance {server.id} has no console on its host.") from error
    return Reply(200, {"output": _last_lines(output, wanted)})


def _read_length(body: ConsoleOutput | None) -> int | None:
    """Return how many pieces are wanted, None for all."""
    asked = body.length if body else None
    length = whole(-1 if asked is None else asked, "length", least=-1)
    return None if length == -1 else length


def _last_lines(output: str, wanted: int | None) -> str:
    """Return so many of the pieces between newlines, None for all."""
    pieces = output.split("\n")
    return output if wanted is None else "\n".join(pieces[max(len(pieces) - wanted, 0) :])


NOT_BUILT: Sequence[tuple[str, str, Version | None, Version | None]] = (
    ("addFixedIp", "os-multinic:add", None, (2, 43)),
    ("addFloatingIp", "os-floating-ips:add", None, (2, 43)),
    ("addSecurityGroup", "os-security-groups:add", None, None),
    ("changePassword", "os-admin-password", None, None),
    ("injectNetworkInfo", "os-admin-actions:inject_network_info", None, None),
    ("os-getSPICEConsole", "os-remote-consoles", None, (2, 5)),
    ("os-getVNCConsole", "os-remote-consoles", None, (2, 5)),
    ("removeFixedIp", "os-multinic:remove", None, (2, 43)),
    ("removeFloatingIp", "os-floating-ips:remove", None, (2, 43)),
    ("removeSecurityGroup", "os-security-groups:remove", None, None),
    ("trigger_crash_dump", "servers:trigger_crash_dump", (2, 17), None),
)
"""Actions of OpenStack that are refused with 501: name, rule, and the versions that have them."""


def _refuser(name: str) -> Callable[[Call[Compute], Any], Awaitable[Reply]]:
    async def refuse(call: Call[Compute], body: Any) -> Reply:
        server = await _find(call)
        raise Invalid(
            f"The action {name} is not built in this cloud. Instance {server.id} was not changed.",
            status=501,
        )

    return refuse


for _name, _rule, _since, _until in NOT_BUILT:
    api.action(PATH, _name, Any, policy=f"{_RULE}{_rule}", since=_since, until=_until)(
        _refuser(_name)
    )


@api.action(PATH, "os-getRDPConsole", Any, policy=f"{_RULE}os-remote-consoles", until=(2, 5))
async def refuse_rdp(call: Call[Compute], body: Any) -> Reply:
    """Say that RDP consoles are no part of the API any more."""
    raise Invalid("RDP consoles were removed from the API.")


@api.action(PATH, "restore", Any, policy=f"{_RULE}os-deferred-delete:restore")
async def refuse_restore(call: Call[Compute], body: Any) -> Reply:
    """Say that the server is not one that can be restored: what is deleted is gone at once."""
    server = await _find(call)
    raise states.refusal(server.id, "restore", "vm_state", server.vm_state)


@api.action(PATH, "resetNetwork", Any, policy=f"{_RULE}os-admin-actions:inject_network_info")
async def refuse_reset_network(call: Call[Compute], body: Any) -> Reply:
    """Say that resetNetwork is no part of the API any more."""
    raise Invalid("The action resetNetwork was removed from the API.", status=410)


async def _find(call: Call[Compute]) -> Server:
    server_id = call.path["server_id"]
    return await call.service.store.read(lambda tx: servers.visible(tx, call.who, server_id))
