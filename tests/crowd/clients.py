"""Eight clients of one service of a cloud, and what stands ready for them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from msgspec.structs import replace

from mooring.agent.settings import PoolSettings
from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.crowd import backups, compute, identity, image, on_servers, placement, share, volume
from tests.crowd.case import CROWD, Ask, Case, fill, fill_body
from tests.laws.scenarios import CROWD as OF_FEATURES

SERVICES = {
    "identity": ("/identity/v3", identity.CASES),
    "image": ("/image/v2", image.CASES),
    "placement": ("/placement", placement.CASES),
    "volume": ("/volume/v3", [*OF_FEATURES["volume"], *volume.CASES, *backups.CASES]),
    "share": ("/share/v2", [*OF_FEATURES["share"], *share.CASES]),
    "compute": ("/compute/v2.1", [*OF_FEATURES["compute"], *compute.CASES]),
}
"""Where each has its routes, and their cases. What an operation is begun with stands with the
scenarios of its feature."""


POOLS = {"local": 10_240, "spare": 1024}


def with_two_pools(cloud: SimulatedCloud) -> SimulatedCloud:
    """Give the host of a cloud what the cases need."""
    # The first one, as the larger, gets what is made; volumes are migrated to the other one.
    pools = [PoolSettings(driver="simulated", name=n, total_gib=g) for n, g in POOLS.items()]
    cloud.hosts["h1"] = replace(cloud.hosts["h1"], pools=tuple(pools))
    return cloud


class Crowd:
    """A cloud, and the eight clients of one service of it."""

    def __init__(self, cloud: SimulatedCloud, root: str) -> None:
        self.cloud, self.root = cloud, root
        self.names: dict[str, str] = {}

    async def furnish(self) -> None:
        """Make what the cases name: an image, a server, and more quota than they need."""
        me = (await self.ask("GET", "/identity/v3/users?name=admin")).key("users")[0]["id"]
        projects = (await self.ask("GET", f"/identity/v3/users/{me}/projects")).key("projects")
        flavors = (await self.ask("GET", "/compute/v2.1/flavors")).key("flavors")
        self.names |= {"me": me, "project": projects[0]["id"]}
        self.names["flavor"] = next(one["id"] for one in flavors if one["name"] == "m1.nano")
        disk = {"name": "tiny", "disk_format": "raw", "container_format": "bare"}
        made = await self.ask("POST", "/image/v2/images", {**disk, "visibility": "public"})
        self.names["image"] = made.key("id")
        await self.ask("PUT", f"/image/v2/images/{made.key('id')}/file", bytes(65536))
        quota = {"instances": -1, "cores": -1, "ram": -1, "server_groups": -1}
        at = f"os-quota-sets/{self.names['project']}"
        await self.ask("PUT", f"/compute/v2.1/{at}", {"quota_set": quota})
        quota = {"volumes": -1, "gigabytes": -1, "snapshots": -1, "backups": -1}
        await self.ask("PUT", f"/volume/v3/{at}", {"quota_set": quota})
        quota = {"shares": -1, "gigabytes": -1, "snapshots": -1, "snapshot_gigabytes": -1}
        at = f"quota-sets/{self.names['project']}"
        await self.ask("PUT", f"/share/v2/{at}", {"quota_set": quota})
        [pool] = (await self.ask("GET", "/share/v2/services")).key("services")
        self.names["shares_at"] = pool["host"]
        [backend, *_] = (await self.ask("GET", "/volume/v3/os-services")).key("services")
        hosts = await self.ask("GET", "/compute/v2.1/os-services?binary=nova-compute")
        [service] = hosts.key("services")
        self.names |= {"backend": backend["host"], "host": "h1", "service": service["id"]}
        server = on_servers.SERVER
        made = await self.ask("POST", "/compute/v2.1/servers", self.filled(server.body))
        self.names["server"] = made.key("server")["id"]
        await self.cloud.settle()

    def filled(self, body: Any, number: int = 0) -> Any:
        return fill_body(body, number, {"case": "yard", **self.names})

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        version: str = "latest",
        user: str = "admin",
        media: str = "",
    ) -> Answer:
        """Send one request, while sagas move."""
        headers = {"Content-Type": media} if media else {}
        known = path.split("/")[1] in {"compute", "volume", "share", "placement"}
        told = version if known else ""
        return await self.cloud.ask(method, path, body, user=user, version=told, headers=headers)

    async def prepare(self, ask: Ask, names: dict[str, str]) -> None:
        """Make what a case needs, one for each client where it says so."""
        is_each = "#" in f"{ask.path}{ask.body}{ask.saves}"
        for number in range(CROWD if is_each else 1):
            body = ask.body
            if not isinstance(body, bytes):
                body = fill_body(body, number, names)
            answer = await self.cloud.until_answered(
                asyncio.create_task(
                    self.ask(
                        ask.method,
                        self.at(fill(ask.path, number, names)),
                        body,
                        version=ask.version,
                    )
                )
            )
            assert answer is not None
            assert answer.status < 300, (ask.method, ask.path, answer.status, answer.body)
            if ask.saves:
                names[ask.saves.replace("#", str(number))] = _find(answer.body, ask.of)
        await self.cloud.settle()

    def at(self, path: str) -> str:
        return path if path.startswith(("/volume/", "/share/", "/identity/")) else self.root + path

    async def try_out(self, case: Case, name: str) -> list[str]:
        """Return what eight clients at once find wrong."""
        digits = "".join(filter(str.isdigit, name)).zfill(11)
        await self.cloud.cloud.look_at_hosts()
        names = {**self.names, "case": name, "CASE": name.upper(), "case12": digits}
        for ask in case.before:
            await self.prepare(ask, names)
        asking = asyncio.create_task(self._send_all(case, names))
        answers = await self.cloud.until_answered(asking)
        assert answers is not None
        await self.cloud.settle()
        wrong = [
            f"{number}: {answer.status} {answer.body}"
            for number, answer in enumerate(answers)
            if answer.status >= 500 and answer.status != 501
        ]
        went_well = [number for number, one in enumerate(answers) if one.status < 300]
        if case.refused != (not went_well) or (case.alone and len(went_well) != 1):
            told = [(one.status, one.body) for one in answers]
            wrong.append(f"{len(went_well)} of {CROWD} went well: {told}")
        return wrong + await self._look(case, went_well, names)

    async def _send_all(self, case: Case, names: dict[str, str]) -> list[Answer]:
        asking = (self._send(case, number, names) for number in range(CROWD))
        return list(await asyncio.gather(*asking))

    async def _send(self, case: Case, number: int, names: dict[str, str]) -> Answer:
        method, path, body = case.request(number, names)
        how = {"version": case.version, "user": case.user, "media": case.media}
        return await self.ask(method, self.root + path, body, **how)

    async def _look(self, case: Case, went_well: list[int], names: dict[str, str]) -> list[str]:
        wrong: list[str] = []
        seen: dict[str, str] = {}
        written: list[bool] = []
        for number in went_well if case.look else ():
            path = self.root + fill(case.look, number, names)
            if path not in seen:
                shown = await self.ask("GET", path, version=case.version)
                seen[path] = json.dumps(shown.body)
            text = seen[path]
            if case.kept and fill(case.kept, number, names) not in text:
                wrong.append(f"{number} is not kept: {text[:2000]}")
            if case.gone and fill(case.gone, number, names) in text:
                wrong.append(f"{number} is still there: {text[:2000]}")
            written.append(bool(case.one) and fill(case.one, number, names) in text)
        if case.one and written.count(True) != 1:
            wrong.append(f"not one of them is kept: {list(seen.values())}")
        return wrong


def _find(body: Any, place: str) -> str:
    """Return what an answer has at a place, as `pools.1.name`. Raises AssertionError without."""
    found = body
    for key in place.split("."):
        if key.isdecimal():
            assert int(key) < len(found), (place, body)
            found = found[int(key)]
        else:
            found = found[key]
    return str(found)
