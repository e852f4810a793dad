"""How long source, tests, documents and this bench are: `python bench/source_lines.py [CHECKOUT]`.

There is no budget: how long a saga, a verb of agents and a route may be is held by `tests/tidy`.
"""

from __future__ import annotations

import io
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    # Run as a file, it finds its own folder alone.
    sys.path.insert(0, str(ROOT))

from bench.rows import Row, tell  # noqa: E402 (only behind the line above is it found)

KINDS = ("src", "tests", "docs", "bench")
WRITTEN = frozenset({".py", ".md"})
WORDLESS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """Return how many lines do something: blank lines, comments and docstrings do not."""
    lines: set[int] = set()
    starts = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in WORDLESS:
            starts = starts or token.type == tokenize.NEWLINE
            continue
        if not (starts and token.type == tokenize.STRING):
            lines.update(range(token.start[0], token.end[0] + 1))
        starts = False
    return len(lines)


def count(checkout: Path, kind: str) -> Row:
    """Count the lines of Python and Markdown below a folder, and those of them that are code."""
    files = [file for file in (checkout / kind).rglob("*") if file.suffix in WRITTEN]
    texts = {file: file.read_text(encoding="utf-8") for file in files if file.is_file()}
    total = sum(len(text.splitlines()) for text in texts.values())
    code = sum(code_lines(text) for file, text in texts.items() if file.suffix == ".py")
    return Row(what=f"lines: {kind}", measured=total, unit="lines", note=f"{code} of them code")


def main(checkout: Path) -> None:
    """Tell the counts by kind."""
    tell(*(count(checkout, kind) for kind in KINDS))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
