"""Reasons can be looked up: what is cited of the fact sheets and specifications is there."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from tests.tidy import tree

SHEETS, SPECS = "docs/facts/", "docs/specs.md"
NUMBER = r"\d+(?:\.\d+)*"
LIST = rf"{NUMBER}(?:(?:,| and| to|, and) (?:facts )?{NUMBER}(?![\w-]))*"
SHEET = re.compile(
    rf"\b(?:facts/)?(?P<sheet>[a-z_]+)\.md(?:,? (?:sections? )?(?P<numbers>{LIST}))?"
)
SPEC = re.compile(r"\b[Ss]pecs? (?P<numbers>00\d(?:\.\d+)?(?:(?:,| and|, and) 00\d(?:\.\d+)?)*)")
HEADING = re.compile(rf"^##+ (?P<number>{NUMBER})\.? ", re.MULTILINE)
BREAK = re.compile(r"\s*\n\s*(?:#:? )?")


def sections(path: str) -> frozenset[str]:
    """The numbers of a page's sections."""
    return frozenset(match["number"] for match in HEADING.finditer(tree.text(path)))


@functools.cache
def sheets() -> dict[str, frozenset[str]]:
    """Every fact sheet by its name, with the numbers of its sections."""
    found = [path for path in tree.files() if path.startswith(SHEETS) and path.endswith(".md")]
    return {path.removeprefix(SHEETS).removesuffix(".md"): sections(path) for path in found}


def citing() -> list[str]:
    """The files that may cite."""
    folders = ("src/", "tests/", "docs/", "bench/", "scripts/")
    return [path for path in tree.files() if path.startswith(folders)]


def citations(path: str) -> Iterator[tuple[str, str]]:
    """What a file cites: the page, and the section or nothing."""
    known, text = sheets(), BREAK.sub(" ", tree.text(path))
    for match in SHEET.finditer(text):
        is_sheet = match[0].startswith("facts/") or match["sheet"] in known
        if is_sheet and (numbers := match["numbers"]):
            yield from ((match["sheet"], number) for number in re.findall(NUMBER, numbers))
        elif is_sheet:
            yield match["sheet"], ""
    for match in SPEC.finditer(text):
        yield from ((SPECS, number) for number in re.findall(NUMBER, match["numbers"]))


def test_every_section_that_is_cited_is_there() -> None:
    pages = {**sheets(), SPECS: sections(SPECS)}
    found = [
        f"{path}: {page} {number}"
        for path in citing()
        for page, number in citations(path)
        if page not in pages or (number and number not in pages[page])
    ]
    assert not found, "\n".join(["", *found])


def test_citations_are_found_where_they_are_written() -> None:
    cited = [citation for path in tree.python("src/") for citation in citations(path)]
    assert ("compute", "2.4") in cited
    assert (SPECS, "001") in cited


def test_every_decision_has_a_number_of_its_own() -> None:
    pages = sorted(path for path in tree.files() if path.startswith("docs/adr/"))
    numbers = [int(path.removeprefix("docs/adr/").partition("-")[0]) for path in pages]
    assert numbers == list(range(1, len(pages) + 1))
    for number, path in zip(numbers, pages, strict=True):
        assert tree.text(path).startswith(f"# ADR {number}: "), path
