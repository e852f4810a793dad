"""What is told of an operation stands in its saga's story; steps tell less and less."""

from __future__ import annotations

from tests.tidy import tree

TELLING = {
    *("actions.begin", "actions.begin_event", "actions.fail", "actions.fail_events"),
    *("faults.record", "messages.add", "messages.note", "notices.send"),
}
STILL_TELL = {
    "src/mooring/compute/delete/sagas/delete_server.py": {"actions.begin_event"},
    "src/mooring/compute/moves/sagas/adopting.py": {"faults.record"},
    "src/mooring/compute/power/sagas/reset_state.py": {"faults.record"},
    "src/mooring/compute/volumes/sagas/extend_again.py": {"actions.begin"},
    "src/mooring/share/shares/sagas/delete_share.py": {"notices.send"},
    "src/mooring/volume/backups/sagas/delete_backup.py": {"notices.send"},
    "src/mooring/volume/extend/sagas/by_compute.py": {"messages.note"},
    "src/mooring/volume/extend/sagas/extend_ends.py": {"messages.note"},
    "src/mooring/volume/reimage/sagas/reimage_volume.py": {"messages.add", "messages.note"},
    "src/mooring/volume/volumes/sagas/delete_volume.py": {"notices.send"},
    "src/mooring/volume/volumes/sagas/reset_status.py": {"notices.send"},
}
"""Of a row that is about to go, of what came out well all the same, and of what an administrator's
word found in its first step. The list only shrinks."""


def test_steps_leave_the_telling_to_their_sagas_story() -> None:
    found: dict[str, set[str]] = {}
    for path in tree.python(tree.PACKAGE):
        for name, _ in tree.calls(path) if "/sagas/" in path else ():
            if name in TELLING:
                found.setdefault(path, set()).add(name)
    assert found == STILL_TELL
