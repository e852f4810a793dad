"""How many files an action touches, counted for a real one: `unrescue`, no host had to learn it."""

from __future__ import annotations

from tests.tidy import tree

WORD = "unrescue"
TOUCHED = {
    "src/mooring/compute/policy.py": "its policy",
    "src/mooring/compute/rescue/api/server_rescue.py": "the route",
    "src/mooring/compute/rescue/rescuing.py": "the rule",
    "src/mooring/compute/rescue/sagas/rescue_notes.py": "its notes",
    "src/mooring/compute/rescue/sagas/rescue_steps.py": "steps that it shares",
    "src/mooring/compute/rescue/sagas/unrescue_server.py": "the saga",
    "tests/compute/test_rescue.py": "what holds, through the API",
    "tests/crowd/compute.py": "eight at once",
    "tests/laws/meetings.py": "what it stands on and locks",
    "tests/laws/rescue_scenarios.py": "its scenario",
    "tests/laws/told.py": "what is told of it",
    "docs/notifications.md": "its notifications",
}
NEEDED_IN = ("src/", "tests/laws/", "tests/crowd/", "docs/notifications.md")
"""Where nobody names an action who need not."""
BY_CHOICE = {"tests/laws/test_random_histories.py", "src/mooring/compute/rescue/__init__.py"}
"""Beside what has to be: a random history has it, too, and the feature's own sentence names it."""
CHECKLIST = "docs/adding-an-action.md"


def test_an_action_touches_as_many_files_as_the_checklist_says() -> None:
    named = {
        path
        for path in tree.files()
        if path.startswith(NEEDED_IN) and not path.endswith(".json")
        if WORD in tree.text(path).lower()
    }
    assert named - BY_CHOICE == {path for path in TOUCHED if path.startswith(NEEDED_IN)}
    assert all(WORD in tree.text(path).lower() for path in TOUCHED)
    # And a fragment of the changelog, which is gone with the next release.
    assert f"{len(TOUCHED) + 1} files" in tree.text(CHECKLIST)
