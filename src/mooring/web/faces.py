"""The faces of our services. A service may cap its `maximum` by a setting."""

from __future__ import annotations

from mooring.web import faults, unbuilt, versions
from mooring.web.face import Face

IDENTITY = Face(
    service="identity",
    segment="v3",
    shape=faults.titled,
    documents=versions.identity,
    unbuilt=unbuilt.IDENTITY,
    codes={"no_capacity": 503},
    ignores_last_slash=True,
)
IMAGE = Face(
    service="image",
    segment="v2",
    shape=faults.image,
    documents=versions.image,
    unbuilt=unbuilt.IMAGE,
    codes={"no_capacity": 413},
)
PLACEMENT = Face(
    service="placement",
    segment="",
    shape=faults.listed,
    documents=versions.placement,
    codes={"no_capacity": 409},
    minimum=(1, 0),
    maximum=(1, 39),
)
VOLUME = Face(
    service="volume",
    segment="v3",
    shape=faults.named,
    documents=versions.volume,
    unbuilt=unbuilt.VOLUME,
    minimum=(3, 0),
    maximum=(3, 71),
    unnamed_is_invalid=True,
    request_id_header="x-compute-request-id",
    project_in_path=True,
    is_for_projects=True,
)
SHARE = Face(
    service="shared-file-system",
    segment="v2",
    shape=faults.named,
    documents=versions.share,
    unbuilt=unbuilt.SHARE,
    minimum=(2, 0),
    maximum=(2, 82),
    legacy_header="X-OpenStack-Manila-API-Version",
    ignores_common_header=True,
    request_id_header="x-compute-request-id",
    project_in_path=True,
    is_for_projects=True,
)
COMPUTE = Face(
    service="compute",
    segment="v2.1",
    shape=faults.named,
    documents=versions.compute,
    unbuilt=unbuilt.COMPUTE,
    codes={"over_quota": 403},
    minimum=(2, 1),
    maximum=(2, 106),
    legacy_header="X-OpenStack-Nova-API-Version",
    request_id_header="x-compute-request-id",
    project_in_path=True,
    is_for_projects=True,
)
