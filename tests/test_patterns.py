"""Patterns of callers: searched in linear time, and alike on both databases."""

from __future__ import annotations

import random
import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import String, bindparam, literal, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from mooring import patterns
from mooring.errors import Invalid
from mooring.limits import PATTERN_LENGTH
from mooring.store.base import open_store

SLOW = "(a*)*(a*)*(a|a)*(.*.*.*.*)*X"


@pytest.mark.parametrize(
    "text",
    [
        r"(a)\1",
        "(?=a)",
        "(?P<n>a)",
        r"\pL",
        r"\Aa",
        r"a\\\z",
        "[",
        "a{1000}{1000}",
        "a{256}",
        "a{5",
        "^*",
        "[[:^alpha:]]",
        "[a[.]",
        r"[^\s-a]",
        "a" * (PATTERN_LENGTH + 1),
        "a\0",
    ],
)
def test_what_is_more_than_a_plain_pattern_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="pattern"):
        patterns.check(text, "name")


@pytest.mark.parametrize(
    "text", [r"\.", r"a\\b", r"a\\\\z", r"[\w.-]+", r"\d-a", "[.]", r"\(?", "^a|b$", "é{2,3}?"]
)
def test_plain_ones_are_taken(text: str) -> None:
    assert patterns.check(text, "name") == text


def test_none_is_never_found() -> None:
    assert patterns.search(".*", None) is False


@given(st.text("ab.*+?|()[]^$", max_size=8), st.text("ab\n", max_size=6))
def test_they_mean_what_python_s_mean(text: str, value: str) -> None:
    try:
        patterns.check(text, "name")
        with warnings.catch_warnings():
            # Python says that [[ and the like may mean something else one day; they mean it here.
            warnings.simplefilter("error")
            known = re.compile(text, re.DOTALL)
    except (Invalid, re.error, FutureWarning):
        return
    # Python's $ is also before a last line break; RE2 and PostgreSQL know the very end only.
    if not value.endswith("\n"):
        assert patterns.search(text, value) == bool(known.search(value))


@pytest.mark.anyio
@pytest.mark.parametrize("found", [True, False])
async def test_a_database_searches_a_long_text_at_once(location: str, found: bool) -> None:
    store = await open_store(location, "compute")
    try:
        text = patterns.check(SLOW, "name")
        value = "a" * 60000 + ("X" if found else "")
        column = literal(value, String)
        query = select(column.regexp_match(bindparam("text", text, String)))
        assert bool(await store.read(lambda tx: tx.execute(query).scalar())) is found
    finally:
        await store.close()


@pytest.mark.anyio
@pytest.mark.postgres
async def test_both_databases_take_the_same_and_find_the_same(postgres_url: str) -> None:
    chance = random.Random(8)
    drawn = {"".join(chance.choices(_SIGNS, k=chance.randint(1, 9))) for _ in range(20000)}
    store = await open_store(postgres_url, "compute")
    try:
        differ = await store.read(lambda tx: _differences(tx, sorted(filter(_is_taken, drawn))))
    finally:
        await store.close()
    assert not differ, "\n".join(differ)


_SIGNS = [*"ab-10,:.*+?|()[]{}^$", r"\d", r"\W", r"\s", r"\.", r"\\", r"\]", "[a", "a]", "[^"]
_VALUES = ["", "a", "b1", "a-b", "aa.b]", "\\", " \n", "(0,{1}:^$"]


def _is_taken(text: str) -> bool:
    try:
        patterns.check(text, "name")
    except Invalid:
        return False
    return True


def _differences(tx: Session, texts: list[str]) -> list[str]:
    values, found = [literal(value, String) for value in _VALUES], list[str]()
    asked = select(*(value.regexp_match(bindparam("text", type_=String)) for value in values))
    for text in texts:
        try:
            with tx.begin_nested():
                theirs = list(tx.execute(asked, {"text": text}).one())
        except DBAPIError as error:
            found.append(f"{text}: {error.orig}")
            continue
        ours = [patterns.search(text, value) for value in _VALUES]
        if ours != theirs:
            found.append(f"{text}: {ours}, PostgreSQL {theirs}")
    return found
