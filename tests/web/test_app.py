from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from mooring import http_limits, limits
from mooring.errors import Bug
from mooring.web import faces
from mooring.web.api import Api, Call, Reply
from mooring.web.app import build_app
from mooring.web.policy import Policy
from tests.callers import PROJECT, Tokens
from tests.cloud import SimulatedCloud
from tests.web.harbour import RULES, Harbour, Visitor

pytestmark = pytest.mark.anyio
ROOT = "/compute/v2.1"


@pytest.fixture
def visitor() -> Visitor:
    structlog.reset_defaults()
    return Visitor()


async def test_a_fixed_segment_wins_over_a_named_one(visitor: Visitor) -> None:
    assert (await visitor.get(f"{ROOT}/boats/detail")).json == {"detail": True}


async def test_named_segments_are_decoded(visitor: Visitor) -> None:
    answer = await visitor.get(f"{ROOT}/boats/a%2Fb%20c")
    assert answer.json["boat"] == {"boat_id": "a/b c"}


async def test_urls_are_made_from_the_public_url(visitor: Visitor) -> None:
    answer = await visitor.get(f"{ROOT}/boats/7")
    assert answer.json["links"] == [
        "http://cloud/compute/v2.1/boats/7",
        "http://cloud/compute/boats/1",
    ]


async def test_the_project_id_in_the_path_is_optional(visitor: Visitor) -> None:
    assert (await visitor.get(f"{ROOT}/{PROJECT}/boats/7")).status == 200


async def test_another_project_id_in_the_path_is_400(visitor: Visitor) -> None:
    answer = await visitor.get(f"{ROOT}/{'f' * 32}/boats/7")
    assert answer.status == 400
    assert "Malformed request URL" in answer.json["badRequest"]["message"]


async def test_an_unknown_path_is_404_in_the_shape_of_the_service(visitor: Visitor) -> None:
    answer = await visitor.get(f"{ROOT}/ships")
    assert (answer.status, answer.json["itemNotFound"]["code"]) == (404, 404)


async def test_a_path_outside_the_version_is_404(visitor: Visitor) -> None:
    assert (await visitor.get("/compute/v9/boats")).status == 404


async def test_a_method_nobody_registered_is_405_and_names_the_others(visitor: Visitor) -> None:
    answer = await visitor.ask("PATCH", f"{ROOT}/boats", who="member")
    assert (answer.status, answer.header("allow")) == (405, "GET, HEAD, POST")
    assert answer.json["badMethod"]["code"] == 405


async def test_head_is_answered_by_get(visitor: Visitor) -> None:
    assert (await visitor.ask("HEAD", f"{ROOT}/boats", who="member")).status == 200


async def test_a_body_that_does_not_fit_is_400_and_names_the_field(visitor: Visitor) -> None:
    answer = await visitor.post(f"{ROOT}/boats", {"boat": {"name": 4}})
    assert answer.status == 400
    assert "boat.name" in answer.json["badRequest"]["message"]


@pytest.mark.parametrize("content", [b"{", b"", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_not_json_is_400(visitor: Visitor, content: bytes) -> None:
    assert (await visitor.post(f"{ROOT}/boats", content)).status == 400


async def test_a_body_over_the_limit_is_413(visitor: Visitor) -> None:
    answer = await visitor.post(f"{ROOT}/boats", b" " * (limits.WEB_BODY_BYTES + 1))
    assert (answer.status, answer.json["overLimit"]["retryAfter"]) == (413, "0")


async def test_a_declared_body_over_the_limit_is_not_read(visitor: Visitor) -> None:
    headers = {"content-length": "99999999"}
    answer = await visitor.ask("POST", f"{ROOT}/boats", who="member", headers=headers)
    assert answer.status == 413


async def test_another_content_type_is_415(visitor: Visitor) -> None:
    headers = {"content-type": "text/xml"}
    answer = await visitor.ask(
        "POST", f"{ROOT}/boats", who="member", content=b"<a/>", headers=headers
    )
    assert (answer.status, answer.json["badMediaType"]["code"]) == (415, 415)


async def test_a_streamed_body_reaches_the_handler_unread(visitor: Visitor) -> None:
    content = b"x" * (limits.WEB_BODY_BYTES + 1)
    answer = await visitor.ask("PUT", f"{ROOT}/boats/1/cargo", who="member", content=content)
    assert answer.json == {"size": len(content)}


async def test_a_stream_is_answered_chunk_by_chunk(visitor: Visitor) -> None:
    answer = await visitor.get(f"{ROOT}/boats/1/cargo")
    assert answer.content == b"\0\0\0\0\1\1\1\1\2\2\2\2"


async def test_an_action_is_found_by_the_key_of_its_body(visitor: Visitor) -> None:
    answer = await visitor.post(f"{ROOT}/boats/1/action", {"rename": {"name": "Ida"}})
    assert (answer.status, answer.json) == (202, {"name": "Ida"})


async def test_an_actions_fault_names_the_field_under_its_key(visitor: Visitor) -> None:
    answer = await visitor.post(f"{ROOT}/boats/1/action", {"rename": {}})
    assert "rename" in answer.json["badRequest"]["message"]


@pytest.mark.parametrize("body", [{}, {"rename": {"name": "a"}, "start": None}, {"fly": None}, [1]])
async def test_an_action_needs_exactly_one_known_key(visitor: Visitor, body: object) -> None:
    assert (await visitor.post(f"{ROOT}/boats/1/action", body)).status == 400


async def test_an_action_above_the_callers_version_is_404(visitor: Visitor) -> None:
    url = f"{ROOT}/boats/1/action"
    assert (await visitor.post(url, {"start": None})).status == 404
    assert (await visitor.post(url, {"start": None}, version="2.5")).status == 202


async def test_the_registration_of_the_callers_version_is_used(visitor: Visitor) -> None:
    body = {"boat": {"name": "Ida"}}
    assert (await visitor.post(f"{ROOT}/boats", body, version="2.4")).status == 202
    assert (await visitor.post(f"{ROOT}/boats", body, version="2.5")).status == 201


async def test_policy_refuses_before_the_handler(visitor: Visitor) -> None:
    answer = await visitor.ask("DELETE", f"{ROOT}/boats/1", who="member")
    assert answer.status == 403
    message = "Policy doesn't allow boats:sink to be performed."
    assert answer.json["forbidden"]["message"] == message
    assert (await visitor.ask("DELETE", f"{ROOT}/boats/1", who="admin")).status == 204


async def test_no_token_is_401_in_the_shape_of_identity(visitor: Visitor) -> None:
    answer = await visitor.get(f"{ROOT}/boats", who="")
    assert (answer.status, answer.json["error"]["title"]) == (401, "Unauthorized")
    assert answer.header("www-authenticate") == 'Keystone uri="http://cloud/identity/v3"'


async def test_an_open_route_needs_no_token(visitor: Visitor) -> None:
    assert (await visitor.get(f"{ROOT}/open", who="")).json == {"user": ""}


async def test_each_answer_has_a_request_id_of_its_own(visitor: Visitor) -> None:
    one, other = await visitor.get(f"{ROOT}/boats"), await visitor.get(f"{ROOT}/nothing")
    assert one.header("x-openstack-request-id") == one.header("x-compute-request-id")
    assert one.header("x-openstack-request-id") != other.header("x-openstack-request-id")
    assert one.header("x-openstack-request-id").startswith("req-")


async def test_a_bug_is_500_with_the_request_id_and_nothing_else(visitor: Visitor) -> None:
    given = "req-00000000-0000-4000-8000-000000000000"
    with capture_logs() as logs:
        answer = await visitor.get(f"{ROOT}/fail/bug", x_openstack_request_id=given)
    assert answer.status == 500
    message = answer.json["computeFault"]["message"]
    assert "secret" not in message
    assert answer.header("x-openstack-request-id") in message
    assert [(log["global_request_id"], log["status"]) for log in logs] == [(given, 500)]
    assert "the secret is 42" in logs[0]["traceback"]


async def test_what_cannot_be_served_now_is_one_line_of_the_log(visitor: Visitor) -> None:
    with capture_logs() as logs:
        assert (await visitor.get(f"{ROOT}/fail/fog")).status == 503
    (line,) = logs
    assert (line["log_level"], line["status"]) == ("warning", 503)
    assert line["error"] == "No boat can leave. (the fog is thick)"
    assert "traceback" not in line


async def test_of_callers_whom_nobody_knows_the_log_names_so_many_in_a_while(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_REFUSALS", 3)
    monkeypatch.setattr(http_limits, "HTTP_REFUSALS_S", 3600.0)
    with capture_logs() as logs:
        for _ in range(8):
            assert (await visitor.get(f"{ROOT}/open?fog=1", who="")).status == 503
        assert (await visitor.get(f"{ROOT}/fail/fog")).status == 503
    assert [line["error"].split()[0] for line in logs] == ["Nobody"] * 3 + ["No"]
    assert {line["event"] for line in logs} == {"request not served now"}


async def test_an_error_may_name_its_own_status(visitor: Visitor) -> None:
    answer = await visitor.get(f"{ROOT}/fail/conflict")
    assert (answer.status, answer.json["computeFault"]["code"]) == (412, 412)


async def test_a_conflict_that_passes_by_itself_names_who_is_in_the_way(visitor: Visitor) -> None:
    answer = await visitor.get(f"{ROOT}/fail/busy")
    assert (answer.status, answer.header("mooring-busy")) == (409, "saga-2")


async def test_what_cannot_be_served_now_says_when_to_come_again(visitor: Visitor) -> None:
    for why, status in (("fog", 503), ("full", 507)):
        answer = await visitor.get(f"{ROOT}/fail/{why}")
        assert (answer.status, answer.header("retry-after")) == (status, "5")


async def test_over_quota_is_403_in_compute_and_413_in_volume(visitor: Visitor) -> None:
    assert (await visitor.get(f"{ROOT}/fail/quota")).status == 403
    volume = Visitor(faces.VOLUME, root="http://cloud/volume")
    answer = await volume.get("/volume/v3/fail/quota")
    assert (answer.status, answer.header("retry-after")) == (413, "0")


async def test_image_faults_are_html_unless_json_is_asked_for() -> None:
    image = Visitor(faces.IMAGE, root="http://cloud/image")
    page = await image.get("/image/v2/nothing")
    assert (page.status, page.header("content-type")) == (404, "text/html; charset=UTF-8")
    assert b"<h1>404 Not Found</h1>" in page.content
    answer = await image.get("/image/v2/nothing", accept="application/json")
    assert (answer.json["code"], answer.json["title"]) == ("404 Not Found", "Not Found")


async def test_placement_faults_are_lists_with_a_code_from_1_23() -> None:
    placement = Visitor(faces.PLACEMENT, root="http://cloud/placement")
    old = (await placement.get("/placement/nothing")).json["errors"][0]
    assert (old["status"], old["title"], "code" in old) == (404, "Not Found", False)
    answer = await placement.get("/placement/fail/conflict", openstack_api_version="placement 1.23")
    assert answer.json["errors"][0]["code"] == "placement.undefined_code"


async def test_only_a_service_has_operations(visitor: Visitor) -> None:
    header = {"mooring_operation": "saga-1.reserve;1;7"}
    await visitor.get(f"{ROOT}/boats/1", who="admin", **header)
    await visitor.get(f"{ROOT}/boats/1", who="volume", **header)
    await visitor.get(f"{ROOT}/boats/1", who="member", x_service_token="volume", **header)
    keys = [call.operation.key if call.operation else None for call in visitor.harbour.seen]
    assert keys == [None, "saga-1.reserve", "saga-1.reserve"]


async def test_only_a_service_may_end_an_operation(visitor: Visitor) -> None:
    url = f"{ROOT}/mooring/operations/saga-1.reserve"
    assert (await visitor.ask("DELETE", url, who="admin")).status == 403


def test_two_routes_for_one_request_are_a_bug() -> None:
    api = Api[Harbour]()

    @api.get("/boats/{id}", policy=None, until=(2, 5))
    async def one(call: Call[Harbour]) -> Reply:
        return Reply(200)

    @api.get("/boats/{boat_id}", policy=None, since=(2, 5))
    async def other(call: Call[Harbour]) -> Reply:
        return Reply(200)

    assert one is not other
    with pytest.raises(Bug, match="registered twice"):
        build(api)


def test_a_route_with_an_unknown_policy_is_a_bug() -> None:
    api = Api[Harbour]()

    @api.get("/boats", policy="boats:paint")
    async def paint(call: Call[Harbour]) -> Reply:
        return Reply(200)

    assert paint
    with pytest.raises(Bug, match="boats:paint"):
        build(api)


def build(api: Api[Harbour]) -> None:
    build_app(
        Harbour(),
        [api],
        face=faces.COMPUTE,
        validator=Tokens(),
        policy=Policy(RULES),
        public_url="http://cloud/compute",
    )


@pytest.mark.parametrize(
    "body",
    [
        b'{"boat": {"name": "a\\u0000b"}}',
        b'{"boat": {"a\\u0000b": "name"}}',
        b'{"boat": {"name": "a\\\\\\u0000b"}}',
        b'{"boat": [{"name": ["\\u0000"]}]}',
    ],
)
@pytest.mark.parametrize("version", ["2.1", "2.5"])
async def test_a_nul_anywhere_in_a_body_is_400(visitor: Visitor, body: bytes, version: str) -> None:
    answer = await visitor.post(f"{ROOT}/boats", body, version=version)
    assert answer.status == 400
    assert "NUL" in answer.json["badRequest"]["message"]


async def test_a_text_that_spells_a_nul_has_none(visitor: Visitor) -> None:
    body = b'{"boat": {"name": "a\\\\u0000b"}}'
    answer = await visitor.post(f"{ROOT}/boats", body, version="2.1")
    assert (answer.status, answer.json["boat"]["name"]) == (202, "a\\u0000b")


@pytest.mark.parametrize("target", ["boats?name=a%00b", "boats?a%00=b", "boats/a%00b", "fail/%00"])
async def test_a_nul_in_a_url_is_400(visitor: Visitor, target: str) -> None:
    answer = await visitor.get(f"{ROOT}/{target}")
    assert answer.status == 400
    assert "NUL" in answer.json["badRequest"]["message"]


async def test_a_query_of_too_many_parts_is_400(visitor: Visitor) -> None:
    answer = await visitor.get(f"{ROOT}/boats?" + "&".join(["name=a"] * limits.WEB_PARAMETERS))
    assert answer.status == 200
    answer = await visitor.get(f"{ROOT}/boats?" + "&name=a" * limits.WEB_PARAMETERS)
    assert answer.status == 400
    assert "parameters" in answer.json["badRequest"]["message"]


async def test_an_empty_id_names_nothing(visitor: Visitor) -> None:
    for method in ("GET", "DELETE", "PUT"):
        answer = await visitor.ask(method, f"{ROOT}/boats/", who="member")
        assert answer.status == 404, method


async def test_identity_takes_a_last_slash_for_nothing(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path, hosts=()) as cloud:
        assert (await cloud.ask("GET", "/identity/v3/auth/projects/")).status == 200
        assert (await cloud.ask("GET", "/identity/v3/")).status == 200
        assert (await cloud.ask("GET", "/volume/v3/")).status == 200
        assert (await cloud.ask("GET", "/volume/v3/volumes/")).status == 404
