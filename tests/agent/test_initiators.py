"""A host's connector has the names by which storage knows it, where os-brick finds them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from mooring.agent import initiators
from mooring.agent.app import open_agent
from mooring.agent.settings import AgentSettings
from mooring.agent_api.client import Agents

pytestmark = pytest.mark.anyio


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
    lay(tmp_path, "sys/module/nvme_core/parameters/multipath", "Y\n")
    lay(tmp_path, "sys/class/dmi/id/product_uuid", "ABCDEF00-0000-4000-8000-000000000000\n")
    for number in (0, 1):
        lay(tmp_path, f"sys/class/fc_host/host{number}/port_name", f"0x100000000000000{number}\n")
        lay(tmp_path, f"sys/class/fc_host/host{number}/node_name", f"0x200000000000000{number}\n")
    assert initiators.find(tmp_path) == {
        "initiator": "iqn.1993-08.org.debian:01:abc",
        "nqn": "nqn.2014-08.org.nvmexpress:uuid:1",
        "nvme_hostid": "11111111-2222-3333-4444-555555555555",
        "nvme_native_multipath": True,
        "system uuid": "abcdef00-0000-4000-8000-000000000000",
        "wwpns": ["1000000000000000", "1000000000000001"],
        "wwnns": ["2000000000000000", "2000000000000001"],
    }


async def test_a_host_s_connector_has_the_names_that_its_machine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(tmp_path, "etc/iscsi/initiatorname.iscsi", "InitiatorName=iqn.1993-08.org.debian:01:abc\n")
    lay(tmp_path, "etc/nvme/hostnqn", "nqn.2014-08.org.nvmexpress:uuid:1\n")
    monkeypatch.setattr(initiators, "find", partial(initiators.find, tmp_path))
    # A host of volumes alone is real without QEMU and libvirt.
    settings = AgentSettings(name="h1", state_dir=tmp_path / "state", roles=("volume",))
    async with open_agent(settings) as running:
        connector = await Agents().in_process("h1", running.app).connector()
    keys = ("host", "initiator", "nqn", "nvme_native_multipath", "wwpns")
    named = {key: connector.get(key) for key in keys}
    assert named == {
        "host": "h1",
        "initiator": "iqn.1993-08.org.debian:01:abc",
        "nqn": "nqn.2014-08.org.nvmexpress:uuid:1",
        "nvme_native_multipath": False,
        "wwpns": None,
    }


def test_a_machine_without_any_names_none(tmp_path: Path) -> None:
    lay(tmp_path, "etc/iscsi/initiatorname.iscsi", "# GenerateName=yes\n")
    assert initiators.find(tmp_path) == {}
