"""A server as each microversion shows it, to users and administrators (facts/compute.md 11.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mooring.compute.hosts import hosts
from mooring.compute.servers.api.server_states import WITH_FAULT, WITH_PROGRESS, status
from mooring.compute.servers.server_list import Surroundings
from mooring.compute.service import Compute
from mooring.compute.tables import Fault, Server
from mooring.compute.wire.api.values import microsecond, second
from mooring.web.api import Call, Version

_ATTRIBUTES = "os_compute_api:os-extended-server-attributes"
_FLAVOR_SPECS = "os_compute_api:servers:show:flavor-extra-specs"
_HOST_STATUS = "os_compute_api:servers:show:host_status"
_UNKNOWN_HOST_STATUS = "os_compute_api:servers:show:host_status:unknown-only"
_ATTR, _STATE, _USAGE = "OS-EXT-SRV-ATTR:", "OS-EXT-STS:", "OS-SRV-USG:"


class Shape(Struct, frozen=True):
    """Which of a server's fields an answer has, beside what version and policy say."""

    extended: bool = True
    """The fields that PUT shows only from 2.75 on."""
    single: bool = True
    """Whether it is one server, not a list: with its server groups."""


SHOW = Shape()
DETAIL = Shape(single=False)
UPDATE_BEFORE_275 = Shape(extended=False)


class Rights(Struct, frozen=True):
    """What the caller may see of one project's servers."""

    attributes: bool
    flavor_specs: bool
    host_status: bool
    unknown_host_status: bool


class ServerView:
    """Writes the servers of one answer. What is the same for all of them is found once."""

    def __init__(self, call: Call[Compute], around: Surroundings, shape: Shape = SHOW) -> None:
        self.version: Version = call.version
        self.around, self.shape = around, shape
        self._url, self._bookmark = call.url("/servers/"), call.bookmark("/servers/")
        self._images, self._flavors = call.bookmark("/images/"), call.bookmark("/flavors/")
        self._call = call
        self._rights_of: dict[str, Rights] = {}
        self._host_ids: dict[tuple[str, str], str] = {}
        self._host_statuses: dict[str, str] = {}

    def brief(self, server: Server) -> dict[str, Any]:
        """Return what a list without detail shows."""
        return {"id": server.id, "name": server.name, "links": self.links(server.id)}

    def links(self, server_id: str) -> list[dict[str, str]]:
        """Return a server's own URLs, with and without the version."""
        return [
            {"rel": "self", "href": self._url + server_id},
            {"rel": "bookmark", "href": self._bookmark + server_id},
        ]

    def whole(self, server: Server) -> dict[str, Any]:
        """Return everything that the caller's version and rights show of a server."""
        shown = status(server.vm_state, server.task_state)
        rights = self._rights_of.get(server.project_id) or self._ask_rights(server.project_id)
        body = self._plain(server, shown, rights)
        if self.shape.extended:
            self._add_states(body, server)
            if rights.attributes:
                self._add_attributes(body, server)
            if self.version >= (2, 16) and (rights.host_status or rights.unknown_host_status):
                self._add_host_status(body, server, rights)
        if shown in WITH_PROGRESS:
            body["progress"] = self.around.progress.get(server.id, 0)
        if shown in WITH_FAULT and (fault := self.around.faults.get(server.id)) is not None:
            body["fault"] = self._fault(fault)
        self._add_newer(body, server)
        return body

    def _ask_rights(self, project_id: str) -> Rights:
        target = {"project_id": project_id, "user_id": self._call.who.user_id}
        found = self._rights_of[project_id] = Rights(
            *(
                self._call.allowed(rule, target)
                for rule in (_ATTRIBUTES, _FLAVOR_SPECS, _HOST_STATUS, _UNKNOWN_HOST_STATUS)
            )
        )
        return found

    def _plain(self, server: Server, shown: str, rights: Rights) -> dict[str, Any]:
        return {
            "id": server.id,
            "name": server.name,
            "status": shown,
            "tenant_id": server.project_id,
            "user_id": server.user_id,
            "metadata": self.around.metadata.get(server.id, {}),
            "hostId": self._host_id(server),
            "image": self._image(server),
            "flavor": self._flavor(server, rights),
            "created": second(server.created_at),
            "updated": second(server.updated_at),
            # Guests have user-mode NAT or nothing: no address that others could reach.
            "addresses": {},
            "accessIPv4": server.access_ip_v4,
            "accessIPv6": server.access_ip_v6,
            "links": self.links(server.id),
            "OS-DCF:diskConfig": server.disk_config,
        }

    def _add_states(self, body: dict[str, Any], server: Server) -> None:
        with_delete = self.version >= (2, 3)
        body |= {
            "config_drive": "True" if server.config_drive else "",
            "key_name": server.key_name,
            "OS-EXT-AZ:availability_zone": server.zone or "",
            _STATE + "task_state": server.task_state,
            _STATE + "vm_state": server.vm_state,
            _STATE + "power_state": server.power_state,
            _USAGE + "launched_at": microsecond(server.launched_at),
            _USAGE + "terminated_at": microsecond(server.terminated_at),
            # As the answer to its creation said; a request may name no other.
            "security_groups": [{"name": "default"}],
            "os-extended-volumes:volumes_attached": [
                {"id": volume_id, "delete_on_termination": delete}
                if with_delete
                else {"id": volume_id}
                for volume_id, delete in self.around.volumes.get(server.id, ())
            ],
        }

    def _add_attributes(self, body: dict[str, Any], server: Server) -> None:
        body[_ATTR + "host"] = server.host
        body[_ATTR + "instance_name"] = f"mooring-{server.id}"
        body[_ATTR + "hypervisor_hostname"] = server.host
        if self.version >= (2, 3):
            body |= {
                _ATTR + "hostname": server.hostname,
                _ATTR + "kernel_id": "",
                _ATTR + "launch_index": server.launch_index,
                _ATTR + "ramdisk_id": "",
                _ATTR + "reservation_id": server.reservation_id,
                _ATTR + "root_device_name": server.root_device_name,
                _ATTR + "user_data": server.user_data,
            }

    def _add_host_status(self, body: dict[str, Any], server: Server, rights: Rights) -> None:
        name = server.host or ""
        text = self._host_statuses.get(name)
        if text is None:
            service, host = self._call.service, self.around.hosts.get(name)
            text = hosts.status_of(host, service.clock.now(), service.settings.host_down_s)
            self._host_statuses[name] = text
        if rights.host_status or text == "UNKNOWN":
            body["host_status"] = text

    def _add_newer(self, body: dict[str, Any], server: Server) -> None:
        """Add what versions after 2.3 brought for everybody, in PUT too."""
        version, shape = self.version, self.shape
        if version >= (2, 9):
            body["locked"] = server.locked_by is not None
        if version >= (2, 19):
            body["description"] = server.description
        if version >= (2, 26):
            body["tags"] = self.around.tags.get(server.id, [])
        if version >= (2, 63):
            body["trusted_image_certificates"] = server.trusted_certificates
        if version >= (2, 71) and shape.single:
            body["server_groups"] = self.around.groups.get(server.id, [])
        if version >= (2, 73):
            body["locked_reason"] = server.locked_reason
        if version >= (2, 90):
            body[_ATTR + "hostname"] = server.hostname
        if version >= (2, 96):
            body["pinned_availability_zone"] = server.pinned_zone
        if version >= (2, 100):
            body["scheduler_hints"] = server.scheduler_hints

    def _image(self, server: Server) -> Any:
        if not server.image_id:
            return ""
        image: dict[str, Any] = {
            "id": server.image_id,
            "links": [{"rel": "bookmark", "href": self._images + server.image_id}],
        }
        if self.version >= (2, 98):
            image["properties"] = server.image_properties
        return image

    def _flavor(self, server: Server, rights: Rights) -> dict[str, Any]:
        if self.version < (2, 47):
            link = {"rel": "bookmark", "href": self._flavors + server.flavor_id}
            return {"id": server.flavor_id, "links": [link]}
        flavor: dict[str, Any] = {
            "vcpus": server.vcpus,
            "ram": server.memory_mib,
            "disk": server.disk_gib,
            "ephemeral": server.ephemeral_gib,
            "swap": server.swap_mib,
            "original_name": server.flavor_name,
        }
        if rights.flavor_specs:
            flavor["extra_specs"] = server.extra_specs
        return flavor

    def _fault(self, fault: Fault) -> Mapping[str, Any]:
        body: dict[str, Any] = {
            "code": fault.code,
            "created": second(fault.created_at),
            "message": fault.message,
        }
        if self._call.who.is_admin:
            body["details"] = fault.details
        elif fault.code != 500:
            # What the service said to its operators is not for everybody.
            body["details"] = fault.message
        return body

    def _host_id(self, server: Server) -> str:
        return host_id(server.project_id, server.host, self._host_ids)


def host_id(
    project_id: str, host: str | None, known: dict[tuple[str, str], str] | None = None
) -> str:
    """Return the name under which a project sees a host: no other project sees the same."""
    if not host:
        return ""
    known = {} if known is None else known
    key = (project_id, host)
    if key not in known:
        known[key] = hashlib.sha224((project_id + host).encode()).hexdigest()
    return known[key]
