"""The page of what stock clients were seen to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tests.compat import evidence
from tests.compat.pages import MADE, short
from tests.tidy.tree import python

COMMANDS = """\
token issue
catalog list
image create --file
image create --volume
image list
image show
image set
image save
image delete
flavor list
flavor show
flavor create
flavor delete
volume create
volume create --image
volume list
volume show
volume delete
volume migrate
volume set
volume backup create
volume backup restore
server create --image --wait
server create --volume
server create --boot-from-volume
server create --block-device
server list
server show
server delete
server stop
server start
server reboot --soft
server reboot --hard
server shelve
server unshelve
server migrate
server resize
server resize confirm
server resize revert
server rebuild
server rescue
server unrescue
server image create
server backup create
server add volume
server remove volume
server volume list
server event list
server event show
console log show
console url show --serial
share list
share show
share set
share resize
share delete
share export location list
share access create
share access list
share access delete
share access delete --unrestrict
share snapshot create
share lock create
share lock list
share type create
share pool list
share service list
share quota show
share quota set
share message list
project create
user create
role add
application credential create\
""".splitlines()
"""What a first session needs, and a little more; each with the options that change what it does."""

TEXT = f"""\
# Commands and SDK calls

{MADE}
The clients are the stock ones, unmodified, over a real socket, against
`mooring up --hypervisor simulated`.

## The `openstack` command

| command | test files |
|---|---|
"""
SDK = """
## openstacksdk

| call | test files |
|---|---|
"""
SPECS = """
## By specification

Each sentence of 001 on these flows has a test named after it: tests/compute/test_spec_001_*.py.

| specification | command | SDK | request |
|---|---|---|---|
| 001 attach | `openstack server add volume SERVER VOLUME` | `compute.create_volume_attachment` | \
`POST /compute/v2.1/servers/{id}/os-volume_attachments` |
| 001 detach | `openstack server remove volume SERVER VOLUME` | \
`compute.delete_volume_attachment` | \
`DELETE /compute/v2.1/servers/{id}/os-volume_attachments/{volume_id}` |
| 001 live migration | `openstack server migrate --live-migration SERVER` | \
`compute.live_migrate_server` | `POST /compute/v2.1/servers/{id}/action` with `os-migrateLive` |
| 001 migration and resize | `openstack server migrate SERVER`, \
`server resize --flavor FLAVOR SERVER` | \
`compute.migrate_server`, `compute.resize_server` | the same with `migrate`, `resize` |
| 001 confirm, revert | `openstack server resize confirm SERVER`, `server resize revert SERVER` | \
`compute.confirm_server_resize`, `compute.revert_server_resize` | \
the same with `confirmResize`, `revertResize` |
| 001 evacuate | `openstack server evacuate SERVER` | `compute.evacuate_server` | \
the same with `evacuate` |
| 001 shelve, unshelve | `openstack server shelve SERVER`, `server unshelve SERVER` | \
`compute.shelve_server`, `compute.unshelve_server` | the same with `shelve`, `unshelve` |
| 001 swap | none | `compute.update_volume_attachment` | \
`PUT /compute/v2.1/servers/{id}/os-volume_attachments/{volume_id}` |
| 001 swap by the volume service | `openstack volume migrate --host POOL VOLUME` | \
`block_storage.migrate_volume` | `POST /volume/v3/volumes/{id}/action` with `os-migrate_volume` |
| 001 boot | `openstack server create --boot-from-volume GIB` | `compute.create_server` | \
`POST /compute/v2.1/servers` with `block_device_mapping_v2` |
| 001 delete | `openstack server delete SERVER` | `compute.delete_server` | \
`DELETE /compute/v2.1/servers/{id}` |
"""


def clients_page() -> str:
    """Return the text of the page."""
    calls: defaultdict[str, set[str]] = defaultdict(set)
    for file in python("tests/contract/"):
        for call in evidence.sdk_calls(file):
            calls[call].add(short(file))
    return "".join([TEXT, *_rows(seen_commands()), SDK, *_rows(calls), SPECS])


def seen_commands() -> dict[str, set[str]]:
    """Return, by command, the test files that run it."""
    found: dict[str, set[str]] = {command: set() for command in COMMANDS}
    for file in python("tests/contract/"):
        for words, everything in evidence.commands(file):
            for command, files in found.items():
                if _is(command, words, everything):
                    files.add(short(file))
    return found


def _is(command: str, words: list[str], everything: frozenset[str]) -> bool:
    wanted = command.split()
    plain = [word for word in wanted if not word.startswith("--")]
    return words[: len(plain)] == plain and everything.issuperset(wanted)


def _rows(found: Mapping[str, Iterable[str]]) -> Iterator[str]:
    for name, files in sorted(found.items()):
        yield f"| `{name}` | {', '.join(sorted(files))} |\n"
