"""The house rules that hold for every file: sizes, words, addresses."""

from __future__ import annotations

import re

import pytest

from tests.tidy import tree

FILE_LINES = 400
COLUMNS = 100
BLOB_BYTES = 256 * 1024

WORDS = {
    r"TODO|FIXME|XXX|HACK": "do it, or refuse with a clear error what is not built",
    r"NotImplementedError": "a Protocol, or a clear refusal",
    r"whitelist|blacklist": "allowed, refused",
    r"sanity": "what is checked, by name",
    r"dummy": "what it stands for",
    r"obviously|simply|basically|of course": "nothing: leave it out",
    r"utilize|leverage": "use",
    r"a\.k\.a\.|e\.g\.|i\.e\.": "the sentence written out",
}
"""What is not written here, and what is written instead."""

NAMES = re.compile(r"(^|/)(utils?|helpers?|misc|common|manager|base_\w+)\.py$")
WORDLESS = (
    "LICENSE",
    "docs/facts/",  # they name what others named
    "docs/style.md",
    "requirements",
    "tests/beside/in_manila/",  # it imports what others named
    "tests/tidy/",
    "src/mooring/store/",
)

ADDRESS = re.compile(
    r"\b(?:https?|ftp|git|ssh)://(?:[^\s/@'\"`]*@)?(\[[0-9a-f:]+\]|[^\s/:'\"`)\]>,|]*)"
)
KNOWN_HOSTS = re.compile(
    r"[\w{}$<>-]*\.?"  # one bare name: a host of a test, or a placeholder
    r"|127\.[\d.]+|\[[0-9a-f:]+\]|0\.0\.0\.0|10\.[\d.]+|192\.0\.2\.\d+|203\.0\.113\.\d+"
    r"|[\w.-]+\.(?:example|test|invalid|localhost)|(?:[\w.-]+\.)?example\.(?:com|org|net)"
    r"|docs\.openstack\.org|www\.apache\.org|libvirt\.org"
)
PRAGMA = re.compile(r"\s*#\s*(?:noqa|type: ignore|pyright: ignore).*$")
PLACES = re.compile(r"(?<![\w.~-])/(?:hom[e]|roo[t]|wor[k]|User[s])/[\w.-]+")


def violations(found: list[str]) -> str:
    return "\n".join(["", *found])


def test_files_stay_short() -> None:
    found = [
        f"{path}: {len(tree.text(path).splitlines())} lines, {FILE_LINES} at most"
        for path in tree.code()
        if len(tree.text(path).splitlines()) > FILE_LINES
    ]
    assert not found, violations(found)


def test_lines_of_code_fit_the_page() -> None:
    found = [
        f"{path}:{number}: {len(line)} columns, {COLUMNS} at most"
        for path in tree.code()
        if not path.startswith(tree.MIGRATIONS)
        for number, line in enumerate(tree.text(path).splitlines(), 1)
        if len(PRAGMA.sub("", line)) > COLUMNS
    ]
    assert not found, violations(found)


def test_no_file_is_large() -> None:
    sizes = {path: (tree.CHECKOUT / path).stat().st_size for path in tree.files()}
    found = [f"{path}: {size} bytes" for path, size in sizes.items() if size > BLOB_BYTES]
    assert not found, violations(found)


@pytest.mark.parametrize("words", WORDS)
def test_banned_words_are_not_written(words: str) -> None:
    pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)")
    found = [
        f"{path}:{number}: {match[0]}; instead: {WORDS[words]}"
        for path in tree.files()
        if not path.startswith(WORDLESS)
        for number, line in enumerate(tree.text(path).splitlines(), 1)
        if (match := pattern.search(line))
    ]
    assert not found, violations(found)


def test_modules_are_named_after_what_they_hold() -> None:
    found = [path for path in tree.python("src/") if NAMES.search(path)]
    assert not found, violations(found)


def test_no_file_names_an_address_to_download_from() -> None:
    found = [
        f"{path}:{number}: {match[0]}"
        for path in tree.files()
        for number, line in enumerate(tree.text(path).splitlines(), 1)
        for match in ADDRESS.finditer(line)
        if not KNOWN_HOSTS.fullmatch(match[1]) and not path.startswith("tests/tidy/")
    ]
    assert not found, violations(found)


def test_pinned_requirements_name_no_index() -> None:
    found = [
        f"{path}:{number}: {line}"
        for path in tree.files()
        if path.startswith("requirements")
        for number, line in enumerate(tree.text(path).splitlines(), 1)
        if line.startswith("-") or "://" in line or " @ " in line
    ]
    assert not found, violations(found)


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    found = [
        f"{path}:{number}: {match[0]}"
        for path in tree.files()
        for number, line in enumerate(tree.text(path).splitlines(), 1)
        if (match := PLACES.search(line))
    ]
    assert not found, violations(found)


def test_a_change_is_filed_under_what_it_changes() -> None:
    form = re.compile(r"changelog\.d/[a-z0-9-]+\.(added|changed|fixed|removed|security)\.md")
    found = [
        path
        for path in tree.files()
        if path.startswith("changelog.d/") and not form.fullmatch(path) and "README" not in path
    ]
    assert not found, violations(found)
