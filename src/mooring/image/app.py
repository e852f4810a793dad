"""The image service, declared."""

from __future__ import annotations

from mooring.clients.unified_limits import UnifiedLimits
from mooring.image import uploads
from mooring.image.api import about, data, images, members
from mooring.image.growth import BOUNDS
from mooring.image.policy import RULES
from mooring.image.service import Image, ImageSettings
from mooring.image.tables import ImageRow, UploadRow
from mooring.service import Loop, Service, Surroundings, rows_of
from mooring.web import faces


def _open(near: Surroundings) -> Image:
    return Image(
        store=near.store,
        directory=near.settings.state_path / "images",
        clock=near.clock,
        owner=near.owner,
        limits=UnifiedLimits(
            near.neighbour("identity"), service="image", region=near.settings.region
        ),
        probe=near.probe,
        settings=ImageSettings(
            count_total=near.settings.image_count_total,
            count_uploading=near.settings.image_count_uploading,
            total_bytes=near.settings.image_size_total << 20,
            reserve_bytes=near.settings.image_reserve_mib << 20,
        ),
    )


SERVICE = Service(
    name="image",
    kind="image",
    entry="image",
    face=faces.IMAGE,
    apis=(images.api, data.api, members.api, about.api),
    rules=RULES,
    open=_open,
    bounds=BOUNDS,
    prepare=uploads.recover,
    loops=(Loop(uploads.watch),),
    pages={"images": rows_of(ImageRow), "uploads": rows_of(UploadRow, key="image_id")},
)
