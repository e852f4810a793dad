"""A host's connector has the names by which storage knows it, where os-brick finds them."""

from __future__ import annotations

from pathlib import Path

from mooring.agent import initiators


def lay(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_machine_with_initiators_names_them(tmp_path: Path) -> None:
    lay(
        tmp_path,
        "etc/iscsi/initiatorname.iscsi",
        "## by open-iscsi\nInitiatorName=iqn.1993-08.org.debian:01:abc\n",
    )
    lay(tmp_path, "etc/nvme/hostnqn", "nqn.2014-08.org.nvmexpress:uuid:1\n")
    lay(tmp_path, "etc/nvme/hostid", "11111111-2222-3333-4444-555555555555\n")
    lay(tmp_path, "sys/class/dmi/id/product_uuid", "ABCDEF00-0000-4000-8000-000000000000\n")
    for number in (0, 1):
        lay(tmp_path, f"sys/class/fc_host/host{number}/port_name", f"0x100000000000000{number}\n")
        lay(tmp_path, f"sys/class/fc_host/host{number}/node_name", f"0x200000000000000{number}\n")
    assert initiators.find(tmp_path) == {
        "initiator": "iqn.1993-08.org.debian:01:abc",
        "nqn": "nqn.2014-08.org.nvmexpress:uuid:1",
        "nvme_hostid": "11111111-2222-3333-4444-555555555555",
        "system uuid": "abcdef00-0000-4000-8000-000000000000",
        "wwpns": ["1000000000000000", "1000000000000001"],
        "wwnns": ["2000000000000000", "2000000000000001"],
    }


def test_a_machine_without_any_names_none(tmp_path: Path) -> None:
    lay(tmp_path, "etc/iscsi/initiatorname.iscsi", "# GenerateName=yes\n")
    assert initiators.find(tmp_path) == {}
