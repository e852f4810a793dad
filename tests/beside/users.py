"""What users and administrators ask of the clouds, and how long they wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from openstack.connection import Connection

from tests.beside.programs import Failed
from tests.contract.clients import Cloud, Shell

WAIT_S, POLL_S = 240.0, 0.2
FLAVOR = "beside"
NEWEST = {"compute": "2.96", "volume": "3.71"}


class User:
    """Asks as an administrator, by the SDK or by the stock command, whoever serves the APIs."""

    def __init__(self, cloud: Cloud) -> None:
        """Log in."""
        self.cloud = cloud
        self.connection: Connection = cloud.connect("mooring")
        self.shell: Shell = cloud.shell("mooring")
        self._numbers = iter(range(1, 1000))

    def name(self, kind: str) -> str:
        """Return a name that nothing has yet."""
        return f"{kind}-{next(self._numbers)}"

    # -- requests ---------------------------------------------------------------------------

    def compute(self, method: str, path: str, body: Any = None, *, version: str = "2.95") -> Any:
        """Ask compute. Raises Failed unless it goes well."""
        return self._ask(self.connection.compute, (method, path, body), version)

    def volume(self, method: str, path: str, body: Any = None, *, version: str = "3.70") -> Any:
        """Ask the volume service. Raises Failed unless it goes well."""
        return self._ask(self.connection.block_storage, (method, path, body), version)

    def share(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the share service, at 2.82. Raises Failed unless it goes well."""
        return self._ask(self.connection.shared_file_system, (method, path, body), "2.82")

    def _ask(self, adapter: Any, asked: tuple[str, str, Any], version: str) -> Any:
        method, path, body = asked
        sent = {} if body is None else {"json": body}
        response = adapter.request(
            path, method, microversion=version, raise_exc=False, headers={}, **sent
        )
        if response.status_code >= 300:
            raise Failed(f"{method} {path}: {response.status_code} {response.text}")
        return response.json() if response.content else None

    def act(self, server: str, action: str, body: Any = None, *, version: str = "2.95") -> Any:
        """Ask for an action of a server."""
        return self.compute("POST", f"/servers/{server}/action", {action: body}, version=version)

    # -- waiting ----------------------------------------------------------------------------

    def until(
        self, look: Callable[[], Any], holds: Callable[[Any], bool], wait_s: float = WAIT_S
    ) -> Any:
        """Look until it holds, and return what was seen. Raises Failed."""
        deadline = time.monotonic() + wait_s
        while not holds(seen := look()):
            if time.monotonic() > deadline:
                raise Failed(f"Waited {wait_s:.0f} s in vain; the last that was seen: {seen}")
            time.sleep(POLL_S)
        return seen

    def server(self, server: str) -> dict[str, Any]:
        """Return what compute says of a server."""
        return self.compute("GET", f"/servers/{server}")["server"]

    def until_server(self, server: str, status: str, *, host: str = "") -> dict[str, Any]:
        """Wait until a server has a status and nothing is done to it. Raises Failed."""

        def holds(seen: dict[str, Any]) -> bool:
            if seen["status"] == "ERROR" != status:
                raise Failed(f"Server {server} is ERROR: {seen.get('fault')}")
            is_idle = seen["OS-EXT-STS:task_state"] is None
            is_there = host in {"", seen["OS-EXT-SRV-ATTR:host"]}
            return seen["status"] == status and is_idle and is_there

        return self.until(lambda: self.server(server), holds)

    def look(self, volume: str) -> dict[str, Any]:
        """Return what the volume service says of a volume."""
        return self.volume("GET", f"/volumes/{volume}")["volume"]

    def until_volume(self, volume: str, status: str, wait_s: float = WAIT_S) -> dict[str, Any]:
        """Wait until a volume has a status. Raises Failed."""
        return self.until(lambda: self.look(volume), lambda seen: seen["status"] == status, wait_s)

    # -- what stories need --------------------------------------------------------------------

    def make_flavor(self) -> None:
        """Make the flavor of the servers."""
        self.shell.run(
            "flavor", "create", FLAVOR, "--id", FLAVOR, "--ram", "64", "--disk", "1", "--vcpus", "1"
        )

    def make_image(self, content: bytes) -> str:
        """Make an image and return its id."""
        return self.cloud.http("admin").image(self.name("image"), content)

    def make_volume(self, size: int = 1, **wanted: Any) -> str:
        """Make a volume, wait until it is available, and return its id."""
        body = {"volume": {"name": self.name("volume"), "size": size, **wanted}}
        made = self.volume("POST", "/volumes", body)["volume"]["id"]
        self.until_volume(made, "available")
        return made

    def make_server(self, *, host: str = "", root: str = "", image: str = "") -> str:
        """Make a server of an image, or on a root volume, wait until it runs; return its id."""
        asked: dict[str, Any] = {
            "name": self.name("server"),
            "flavorRef": FLAVOR,
            "networks": "none",
            **({"host": host} if host else {}),
            **({"imageRef": image} if image else {}),
        }
        if root:
            device = {"boot_index": 0, "source_type": "volume", "destination_type": "volume"}
            asked["block_device_mapping_v2"] = [{**device, "uuid": root}]
        made = self.compute("POST", "/servers", {"server": asked})["server"]["id"]
        self.until_server(made, "ACTIVE")
        return made

    def begin_attach(self, server: str, volume: str) -> None:
        """Ask for an attachment."""
        path = f"/servers/{server}/os-volume_attachments"
        self.compute("POST", path, {"volumeAttachment": {"volumeId": volume}})

    def attach(self, server: str, *volumes: str) -> None:
        """Attach volumes, and wait until they are in use."""
        for volume in volumes:
            self.begin_attach(server, volume)
        for volume in volumes:
            self.until_volume(volume, "in-use")

    def begin_detach(self, server: str, volume: str) -> None:
        """Ask for a detachment."""
        self.compute("DELETE", f"/servers/{server}/os-volume_attachments/{volume}")

    def detach(self, server: str, *volumes: str) -> None:
        """Detach volumes, and wait until they are available."""
        for volume in volumes:
            self.begin_detach(server, volume)
        for volume in volumes:
            self.until_volume(volume, "available")

    def attachments(self, volume: str) -> list[dict[str, Any]]:
        """Return the attachments of a volume, in full."""
        listed = self.volume("GET", f"/attachments/detail?volume_id={volume}&all_tenants=1")
        return listed["attachments"]

    def on_hosts(self, volume: str) -> list[str]:
        """Return on which hosts a volume is attached, by the hosts' names."""
        return sorted(one["host_name"] or "" for one in self.look(volume)["attachments"])

    def listed(self, server: str) -> list[str]:
        """Return the volumes that compute lists for a server."""
        answer = self.compute("GET", f"/servers/{server}/os-volume_attachments")
        return sorted(one["volumeId"] for one in answer["volumeAttachments"])

    def make_share(self, protocol: str = "NFS", share_type: str | None = None) -> str:
        """Make a share, wait until it is available, and return its id."""
        asked = {"share_proto": protocol, "size": 1, "name": self.name("share")}
        body = {"share": {**asked, "share_type": share_type}}
        made = self.share("POST", "/shares", body)["share"]["id"]

        def holds(seen: dict[str, Any]) -> bool:
            if seen["status"] == "error":
                raise Failed(f"Share {made} is in error.")
            return seen["status"] == "available"

        self.until(lambda: self.share("GET", f"/shares/{made}")["share"], holds)
        return made

    def rules(self, share: str) -> dict[str, str]:
        """Return the states of a share's access rules, by whom they let in."""
        listed = self.share("GET", f"/share-access-rules?share_id={share}")["access_list"]
        return {one["access_to"]: one["state"] for one in listed}

    def until_lets_in(self, share: str, *clients: str) -> None:
        """Wait until a share lets in these clients, and there is no rule of anybody else."""
        wanted = dict.fromkeys(clients, "active")
        self.until(lambda: self.rules(share), lambda seen: seen == wanted)

    def begin_share(self, server: str, share: str) -> None:
        """Ask that a stopped server gets a share."""
        self.compute(
            "POST", f"/servers/{server}/shares", {"share": {"share_id": share}}, version="2.97"
        )

    def until_shared(self, server: str, status: str, *shares: str) -> None:
        """Wait until these are a server's shares, each with the status."""
        self.until(lambda: self.shares(server), lambda seen: seen == dict.fromkeys(shares, status))

    def shares(self, server: str) -> dict[str, str]:
        """Return the statuses of a server's shares."""
        listed = self.compute("GET", f"/servers/{server}/shares", version="2.97")["shares"]
        return {one["share_id"]: one["status"] for one in listed}

    def add_shares(self, server: str, *shares: str) -> None:
        """Stop a server, give it shares, start it again; it has all of them then."""
        self.stop(server)
        for share in shares:
            self.begin_share(server, share)
        self.until_shared(server, "inactive", *shares)
        self.start(server)
        self.until_shared(server, "active", *shares)

    def remove_shares(self, server: str, *shares: str) -> None:
        """Stop a server and take its shares away."""
        self.stop(server)
        for share in shares:
            self.remove_share(server, share)

    def remove_share(self, server: str, share: str) -> None:
        """Take a share from a server that is off."""
        self.compute("DELETE", f"/servers/{server}/shares/{share}", version="2.97")
        self.until(lambda: self.shares(server), lambda seen: share not in seen)

    def stop(self, server: str) -> None:
        """Stop a server."""
        self.act(server, "os-stop")
        self.until_server(server, "SHUTOFF")

    def start(self, server: str) -> None:
        """Start a server."""
        self.act(server, "os-start")
        self.until_server(server, "ACTIVE")

    def delete_share(self, share: str) -> None:
        """Delete a share that no rule is left of, and wait until it is gone."""
        self.until_lets_in(share)
        self.share("DELETE", f"/shares/{share}")
        self.until_gone("shared_file_system", f"/shares/{share}")

    def remove(self, servers: Sequence[str] = (), volumes: Sequence[str] = ()) -> None:
        """Delete servers, then volumes, and wait until they are gone and free."""
        for server in servers:
            self.compute("DELETE", f"/servers/{server}")
        for server in servers:
            self.until_gone("compute", f"/servers/{server}")
        for volume in volumes:
            self.until_volume(volume, "available")
            self.volume("DELETE", f"/volumes/{volume}")
        for volume in volumes:
            self.until_gone("block_storage", f"/volumes/{volume}")

    def until_gone(self, service: str, path: str) -> None:
        """Wait until a path of a service is not found."""
        adapter = getattr(self.connection, service)
        self.until(
            lambda: adapter.get(path, raise_exc=False).status_code, lambda status: status == 404
        )
