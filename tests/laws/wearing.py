"""A cloud that is used in every way at random, and emptied again."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from tests.laws import backup_scenarios, basics, image_scenarios, share_scenarios
from tests.laws import volume_snapshot_scenarios as snapshots
from tests.laws.roaming import FREE
from tests.laws.sites import COMPUTE, IMAGE, SHARE, THIRD, VOLUME, Site
from tests.laws.test_random_histories import SERVERS, choose_act

_NEWEST = "2.82"
_CLIENT = {"access_type": "ip", "access_to": "10.0.0.1"}
_UPLOAD = {"image_name": "copy", "disk_format": "raw", "container_format": "bare"}
_VERSIONS = {COMPUTE: "2.90", VOLUME: "3.66", SHARE: _NEWEST, IMAGE: ""}
Act = Callable[[], Coroutine[Any, Any, Any]]


class Kind:
    """Things of one kind that are listed, and deleted by force where that is an action."""

    def __init__(self, root: str, name: str, force: str = "") -> None:
        self._root, self.name, self._force = root, name, force

    async def ids(self, site: Site) -> list[str]:
        """Return all of them but the image that every place stands on."""
        wide = "" if self._root == IMAGE else "?all_tenants=1"
        path, version = f"{self._root}/{self.name}{wide}", _VERSIONS[self._root]
        answer = await site.ask("GET", path, user="admin", version=version)
        assert answer is not None
        return [one["id"] for one in answer.key(self.name) if one["id"] != site.names["image"]]

    async def delete(self, site: Site, one: str) -> Any:
        """Ask for the deletion of one."""
        path, version = f"{self._root}/{self.name}/{one}", _VERSIONS[self._root]
        if not self._force:
            return await site.ask("DELETE", path, user="admin", version=version)
        body: dict[str, Any] = {self._force: None if self._root == SHARE else {}}
        return await site.ask("POST", f"{path}/action", body, user="admin", version=version)


BACKUPS, IMAGES = Kind(VOLUME, "backups"), Kind(IMAGE, "images")
PICTURES, SHARES = Kind(SHARE, "snapshots"), Kind(SHARE, "shares", "force_delete")
KINDS = (
    *(Kind(COMPUTE, "servers"), BACKUPS, IMAGES, Kind(VOLUME, "snapshots")),
    *(Kind(VOLUME, "volumes", "os-force_delete"), PICTURES, SHARES),
)
"""What there may be of users, in an order in which it can go."""


def choose_anything(chance: random.Random, site: Site) -> Coroutine[Any, Any, Any]:
    """Return what some user or administrator does next."""
    server, volume = site.names[chance.choice(SERVERS)], site.names[chance.choice(FREE)]
    there = Site.beside(site, server=server, volume=volume)
    ways = (_of_moves, _of_volumes, _of_images, _of_shares)
    way = chance.choice(ways)
    acts: list[Act] = [lambda: choose_act(chance, site), *way(chance, there)]
    return chance.choice(acts)()


def _of_moves(chance: random.Random, there: Site) -> list[Act]:
    host, size = chance.choice([None, "h1", THIRD]), chance.choice(["42", "84", "2"])
    act = partial(_act, there)
    return [
        lambda: act("os-migrateLive", {"host": host, "block_migration": "auto"}),
        lambda: act("migrate", {"host": host}),
        lambda: act("resize", {"flavorRef": size}),
        *[lambda: act("confirmResize")] * 2,
        *[lambda: act("revertResize")] * 2,
        lambda: act("shelve"),
        lambda: act("shelveOffload"),
        *[lambda: act("unshelve")] * 2,
    ]


def _of_volumes(chance: random.Random, there: Site) -> list[Act]:
    return [
        *[lambda: snapshots.take_snapshot(there)] * 2,
        lambda: snapshots.clone_volume(there),
        *[lambda: backup_scenarios.back_up(there, force=True)] * 2,
        lambda: _restore(chance, there),
        lambda: _lose(chance, there, BACKUPS),
    ]


def _of_images(chance: random.Random, there: Site) -> list[Act]:
    return [
        lambda: image_scenarios.make_image(there),
        lambda: image_scenarios.make_backup(there),
        lambda: basics.act_on_volume(there, "os-volume_upload_image", _UPLOAD),
        *[lambda: _boot(chance, there)] * 2,
        lambda: _lose(chance, there, IMAGES),
    ]


def _of_shares(chance: random.Random, there: Site) -> list[Act]:
    size = chance.choice([1, 2, 3])
    act = partial(_of_share, chance, there)
    return [
        *[lambda: share_scenarios.create(there)] * 2,
        lambda: act(lambda one: share_scenarios.act(one, "allow_access", _CLIENT)),
        lambda: act(lambda one: share_scenarios.act(one, "extend", {"new_size": size})),
        lambda: act(lambda one: share_scenarios.act(one, "shrink", {"new_size": size})),
        lambda: act(share_scenarios.take_snapshot),
        lambda: act(share_scenarios.delete),
        lambda: _lose(chance, there, PICTURES),
    ]


async def empty(site: Site) -> None:
    """Delete all there is, whatever becomes of it meanwhile."""
    left: dict[str, Any] = {}
    for _ in range(4):
        left = {}
        for kind in KINDS:
            for one in await kind.ids(site):
                left[f"{kind.name}/{one}"] = await kind.delete(site, one)
            await site.cloud.settle()
        if not left:
            return
    raise AssertionError(f"What was deleted is still there: {left}.")


async def _act(site: Site, action: str, value: Any = None) -> Any:
    path = f"{COMPUTE}/servers/{{server}}/action"
    return await site.ask("POST", path, {action: value}, user="admin", version="2.90")


async def _lose(chance: random.Random, site: Site, kind: Kind) -> None:
    """Delete one of a kind, if there is one."""
    if found := await kind.ids(site):
        await kind.delete(site, chance.choice(found))


async def _boot(chance: random.Random, site: Site) -> Any:
    """Make a server of an image that was made of another one, if there is one."""
    if found := await IMAGES.ids(site):
        return await basics.create_server(Site.beside(site, image=chance.choice(found)))
    return None


async def _restore(chance: random.Random, site: Site) -> Any:
    """Make a volume of a backup, if there is one."""
    if found := await BACKUPS.ids(site):
        return await backup_scenarios.restore(Site.beside(site, backup=chance.choice(found)))
    return None


async def _of_share(
    chance: random.Random, site: Site, act: Callable[[Site], Coroutine[Any, Any, Any]]
) -> Any:
    """Do something to a share, if there is one."""
    if found := await SHARES.ids(site):
        return await act(Site.beside(site, share=chance.choice(found)))
    return None
