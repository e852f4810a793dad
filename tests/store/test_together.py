"""What holds for writes that go together: everybody has his own answer, and none spoils others'."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mooring.errors import Bug, Conflict
from mooring.store.together import AT_ONCE, Together

pytestmark = pytest.mark.anyio


class Book:
    """Writes down numbers, each as many as it is given at a time; odd ones above 1000 never."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.may_write = asyncio.Event()
        self.may_write.set()

    async def write(self, numbers: Sequence[int]) -> list[str]:
        await self.may_write.wait()
        if any(number > 1000 and number % 2 for number in numbers):
            raise Conflict("Numbers like that are not written.")
        self.batches.append(list(numbers))
        return [f"written {number}" for number in numbers]


async def test_all_that_come_at_once_are_few_writes_and_each_has_its_own_answer() -> None:
    book = Book()
    write = Together(book.write)
    answers = await asyncio.gather(*(write(number) for number in range(250)))
    assert answers == [f"written {number}" for number in range(250)]
    assert [len(batch) for batch in book.batches] == [AT_ONCE, AT_ONCE, 50]


async def test_who_comes_while_one_is_written_is_written_next() -> None:
    book = Book()
    book.may_write.clear()
    write = Together(book.write)
    first = asyncio.create_task(write(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    late = [asyncio.create_task(write(number)) for number in (2, 3)]
    await asyncio.sleep(0)
    book.may_write.set()
    assert await asyncio.gather(first, *late) == ["written 1", "written 2", "written 3"]
    assert book.batches == [[1], [2, 3]]


async def test_a_bad_one_is_refused_alone() -> None:
    book = Book()
    write = Together(book.write)
    answers = await asyncio.gather(*map(write, (1, 1001, 2)), return_exceptions=True)
    assert answers[0] == "written 1"
    assert answers[2] == "written 2"
    assert isinstance(answers[1], Conflict)
    assert book.batches == [[1], [2]]
    assert await write(4) == "written 4"


async def test_who_gives_up_keeps_nobody_and_is_written_all_the_same() -> None:
    book = Book()
    book.may_write.clear()
    write = Together(book.write)
    impatient, patient = (asyncio.create_task(write(number)) for number in (1, 2))
    await asyncio.sleep(0)
    impatient.cancel()
    book.may_write.set()
    assert await patient == "written 2"
    await write.end()
    assert book.batches == [[1, 2]]
    assert impatient.cancelled()


async def test_who_has_no_answer_of_his_own_is_told_so_and_nothing_is_written_twice() -> None:
    """A mistake of ours, in which nobody waits for ever."""
    written: list[int] = []

    async def forget(numbers: Sequence[int]) -> list[int]:
        written.extend(numbers)
        return [number for number in numbers if number != 2]

    write = Together(forget)
    async with asyncio.timeout(20.0):
        answers = await asyncio.gather(*map(write, (1, 2, 3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Bug] * 3
    assert written == [1, 2, 3]
    assert await write(4) == 4
