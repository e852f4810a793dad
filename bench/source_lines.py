"""How long the source is, beside its budget of 25,000 lines."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path

from bench.rows import Row, tell

SOURCE = Path(__file__).parents[1] / "src"
BUDGET_LINES = 25_000
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


def main() -> None:
    """Tell both counts; migrations are written by a program, and not counted."""
    texts = [
        file.read_text(encoding="utf-8")
        for file in SOURCE.rglob("*.py")
        if "migrations" not in file.parts
    ]
    total = sum(len(text.splitlines()) for text in texts)
    code = sum(code_lines(text) for text in texts)
    note = f"{code} of them code"
    tell(Row(what="source", measured=total, unit="lines", budget=BUDGET_LINES, note=note))


if __name__ == "__main__":
    main()
