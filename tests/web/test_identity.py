from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from mooring.errors import Unauthenticated
from mooring.web.identity import is_service, who_from_request
from mooring.who import Who
from tests.callers import Tokens

pytestmark = pytest.mark.anyio


async def ask(**headers: str) -> Who:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await who_from_request(Headers(named), Tokens(), "req-1")


async def test_a_token_tells_who_asks() -> None:
    who = await ask(x_auth_token="member")
    assert (who.user_id, who.roles, who.is_admin) == ("member", {"member", "reader"}, False)
    assert not who.is_service


async def test_a_service_token_vouches_for_the_caller() -> None:
    who = await ask(x_auth_token="member", x_service_token="volume")
    assert (who.is_service, who.service_user_id) == (True, "volume")


async def test_a_service_asking_for_itself_is_a_service() -> None:
    assert is_service(await ask(x_auth_token="volume"))


async def test_an_expired_token_needs_a_service_beside_it() -> None:
    with pytest.raises(Unauthenticated):
        await ask(x_auth_token="expired-member")
    assert (await ask(x_auth_token="expired-member", x_service_token="volume")).user_id == "member"


@pytest.mark.parametrize("fake", ["member", "admin", "nonsense", "expired-volume"])
async def test_a_fake_service_token_spoils_the_request(fake: str) -> None:
    with pytest.raises(Unauthenticated):
        await ask(x_auth_token="member", x_service_token=fake)


async def test_a_service_token_alone_is_not_enough() -> None:
    with pytest.raises(Unauthenticated):
        await ask(x_service_token="volume")
