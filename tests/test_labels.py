"""Metadata has a bound however often one adds to it, on everything that has some."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring import labels
from mooring.errors import Invalid
from mooring.row_limits import LABELS
from tests.cloud import SimulatedCloud


def items(count: int, at: int = 0) -> dict[str, str]:
    return {f"key-{number}": "x" for number in range(at, at + count)}


def test_more_than_the_bound_is_refused_and_less_is_taken() -> None:
    full = labels.merge({}, items(LABELS), whole=True)
    with pytest.raises(Invalid, match=str(LABELS)):
        labels.merge(full, {"one more": "x"}, whole=False)
    assert labels.merge(full, {"key-0": "other"}, whole=False)["key-0"] == "other"
    # From before there was a bound.
    more = items(LABELS + 5)
    assert len(labels.merge(more, {"key-0": "other"}, whole=False)) == LABELS + 5
    assert labels.merge(more, {"a": "b"}, whole=True) == {"a": "b"}


@pytest.mark.anyio
async def test_volumes_snapshots_and_shares_take_no_more(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path) as cloud:
        made = await cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
        volume = f"/volume/v3/volumes/{made.key('volume')['id']}"
        await cloud.settle()
        wanted = {"snapshot": {"volume_id": made.key("volume")["id"]}}
        made = await cloud.ask("POST", "/volume/v3/snapshots", wanted)
        snapshot = f"/volume/v3/snapshots/{made.key('snapshot')['id']}"
        share = {"share": {"share_proto": "NFS", "size": 1}}
        made = await cloud.ask("POST", "/share/v2/shares", share, version="2.82")
        shared = f"/share/v2/shares/{made.key('share')['id']}"
        await cloud.settle()
        for path in (volume, snapshot, shared):
            for at in (0, LABELS // 2):
                body = {"metadata": items(LABELS // 2, at)}
                answer = await cloud.ask("POST", f"{path}/metadata", body, version=_version(path))
                assert answer.status == 200, (path, answer)
            body = {"metadata": {"one more": "x"}}
            answer = await cloud.ask("POST", f"{path}/metadata", body, version=_version(path))
            assert (answer.status, str(LABELS) in answer.text) == (400, True), path
        body = {"os-set_image_metadata": {"metadata": items(LABELS)}}
        assert (await cloud.ask("POST", f"{volume}/action", body)).status == 200
        body = {"os-set_image_metadata": {"metadata": {"one more": "x"}}}
        assert (await cloud.ask("POST", f"{volume}/action", body)).status == 400


@pytest.mark.anyio
async def test_what_is_made_or_changed_with_more_is_refused(tmp_path: Path) -> None:
    more = items(LABELS + 1)
    async with SimulatedCloud(tmp_path) as cloud:
        made = await cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
        volume_id = made.key("volume")["id"]
        share = {"share_proto": "NFS", "size": 1}
        made = await cloud.ask("POST", "/share/v2/shares", {"share": share}, version="2.82")
        share_id = made.key("share")["id"]
        await cloud.settle()
        wanted = {"backup": {"volume_id": volume_id}}
        made = await cloud.ask("POST", "/volume/v3/backups", wanted, version="3.43")
        backup_id = made.key("backup")["id"]
        await cloud.settle()
        rule = {"access_type": "ip", "access_to": "192.0.2.1", "metadata": more}
        for method, path, body in (
            ("POST", "/volume/v3/volumes", {"volume": {"size": 1, "metadata": more}}),
            ("PUT", f"/volume/v3/volumes/{volume_id}", {"volume": {"metadata": more}}),
            ("POST", "/volume/v3/snapshots", _named("snapshot", volume_id=volume_id)),
            ("POST", "/volume/v3/backups", _named("backup", volume_id=volume_id)),
            ("PUT", f"/volume/v3/backups/{backup_id}", _named("backup")),
            ("POST", "/share/v2/shares", _named("share", **share)),
            ("POST", "/share/v2/snapshots", _named("snapshot", share_id=share_id)),
            ("POST", f"/share/v2/shares/{share_id}/action", {"allow_access": rule}),
        ):
            version = "2.82" if "/share/" in path else "3.43"
            answer = await cloud.ask(method, path, body, version=version)
            assert (answer.status, str(LABELS) in answer.text) == (400, True), (path, answer.text)


def _named(key: str, **fields: object) -> dict[str, object]:
    return {key: {**fields, "metadata": items(LABELS + 1)}}


def _version(path: str) -> str | None:
    return "2.82" if path.startswith("/share") else None
