"""How many files an action touches, counted for a real one: `unrescue`, no host had to learn it."""

from __future__ import annotations

from tests.tidy import tree

WORD = "unrescue"
TOUCHED = {
    "src/mooring/compute/rescue/api/server_rescue.py": "the route",
    "src/mooring/compute/rescue/rescuing.py": "the rule",
    "src/mooring/compute/rescue/sagas/unrescue_server.py": "the saga",
    "tests/compute/test_rescue.py": "what holds, through the API",
    "tests/laws/rescue_scenarios.py": "what laws and crowds try, and what is told of it",
}
NEEDED_IN = ("src/", "tests/laws/", "tests/crowd/", "docs/notifications.md")
"""Where nobody names an action who need not."""
POLICY = "src/mooring/compute/policy.py"
"""Has the rules of all that upstream can do, built here or not."""
BY_CHOICE = {"tests/laws/roaming.py"}
"""Beside what has to be: a random history has it, too."""
CHECKLIST = "docs/adding-an-action.md"
AT_MOST = 6


def test_an_action_touches_as_many_files_as_the_checklist_says() -> None:
    named = {
        path
        for path in tree.files()
        if path.startswith(NEEDED_IN) and not path.endswith(".json")
        if WORD in tree.text(path).lower()
    }
    assert named - BY_CHOICE - {POLICY} == {path for path in TOUCHED if path.startswith(NEEDED_IN)}
    assert all(WORD in tree.text(path).lower() for path in (*TOUCHED, POLICY))
    # And a fragment of the changelog, which is gone with the next release.
    assert len(TOUCHED) + 1 <= AT_MOST
    assert f"touches {len(TOUCHED) + 1} files" in tree.text(CHECKLIST)
