"""A server that writes all the time, in a cloud of two real hosts, and where it is."""

from __future__ import annotations

from tests.contract.clients import COMPUTE
from tests.hosts.moving_cloud import MovingCloud
from tests.hosts.real_cloud import Guest
from tests.hosts.written import BLOCK, LABEL

HOST = "OS-EXT-SRV-ATTR:host"


class Writer:
    """A server that boots from a volume and writes to another one."""

    def __init__(
        self, cloud: MovingCloud, image: bytes, label: bytes = LABEL, **properties: str
    ) -> None:
        self.cloud = cloud
        kind = cloud.kind
        root = cloud.make_volume(kind, cloud.demo.image("guest", image, "qcow2", **properties))
        label_id = cloud.demo.image("label", label.ljust(BLOCK, b"\0"))
        self.volume_id = cloud.make_volume(kind, label_id)
        mapping = {"boot_index": 0, "uuid": root}
        mapping |= {"source_type": "volume", "destination_type": "volume"}
        self.guest: Guest = cloud.boot("moving", block_device_mapping_v2=[mapping])
        self.server_id = self.guest.server_id
        self.guest.attach(self.volume_id)
        self.image = cloud.file_of(self.volume_id)
        self.counts: list[int] = []
        """How many blocks the guest said it had written, as it was heard."""

    @property
    def host(self) -> str:
        """Where it is."""
        shown = self.cloud.admin.ask("GET", f"{COMPUTE}/servers/{self.server_id}")
        return shown.key("server")[HOST]

    def writes_on(self) -> int:
        """Wait until the guest has written once more; return how many blocks it says it wrote."""
        self.guest.forget()
        return int(self.guest.hear(r"writer has written (\d+)")[1])

    def finds(self) -> int:
        """Wait until a guest that was started anew has looked at its disk; return what was there.

        Counted in blocks, up to the first gap.
        """
        self.guest.begin_anew()
        return int(self.guest.hear(r"writer begins and finds (\d+) blocks")[1])
