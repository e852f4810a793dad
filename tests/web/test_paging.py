from __future__ import annotations

import pytest
from starlette.datastructures import QueryParams

from mooring import limits
from mooring.errors import Invalid
from mooring.web import paging
from mooring.web.paging import Page

KEYS = ("name", "size", "id")


def read(query: str) -> Page:
    return paging.read(QueryParams(query), keys=KEYS, default=(("id", "asc"),))


def test_without_a_query_a_page_has_the_largest_size() -> None:
    assert read("") == Page(limits.WEB_PAGE_ROWS, None, 0, (("id", "asc"),))


def test_a_larger_limit_is_cut() -> None:
    assert read("limit=99999999").limit == limits.WEB_PAGE_ROWS


@pytest.mark.parametrize("text", ["-1", "x", "1.5", "%C2%B2", "9" * 30])
def test_a_limit_that_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="limit"):
        read(f"limit={text}")


@pytest.mark.parametrize(
    ("query", "sort"),
    [
        ("sort=name:asc,size", (("name", "asc"), ("size", "desc"))),
        ("sort_key=name&sort_key=size&sort_dir=asc", (("name", "asc"), ("size", "desc"))),
        ("sort_key=name", (("name", "desc"),)),
        ("sort_dir=desc", (("id", "desc"),)),
        ("sort=name:asc,size,name:desc,size:asc", (("name", "asc"), ("size", "desc"))),
    ],
)
def test_both_forms_of_a_sort_order_are_read(query: str, sort: object) -> None:
    assert read(query).sort == sort


@pytest.mark.parametrize(
    "query",
    [
        "sort=name&sort_key=size",
        "sort=colour",
        "sort=name:up",
        "sort_key=name&sort_dir=asc&sort_dir=asc",
        "sort_dir=asc&sort_dir=asc",
        "sort_dir=up",
    ],
)
def test_a_sort_order_that_makes_no_sense_is_refused(query: str) -> None:
    with pytest.raises(Invalid):
        read(query)


def test_a_list_of_one_order_ignores_another_one() -> None:
    page = paging.read(QueryParams("sort_key=name&sort_dir=up"), default=(("id", "asc"),))
    assert page.sort == (("id", "asc"),)
