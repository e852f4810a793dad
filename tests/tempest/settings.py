"""What Tempest is told of the cloud: its accounts, its configuration and which tests to run."""

from __future__ import annotations

import configparser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from tests.contract.clients import Cloud
from tests.tempest.network import STAND_IN

READER, MANAGER = "reader", "manager"
"""Tempest reads with a user of its own who may do nothing else, in the project of `demo`.

So it does what a project's manager may; tests that need one ask for it though they do not use it.
"""

SHARED = "shared"
"""The type of volumes that several servers may have."""

_ACTIONS = "tempest.api.compute.servers.test_server_actions"
_VOLUMES = "tempest.api.compute.volumes"
_EXTEND = "tempest.api.volume.test_volumes_extend"


class Part(Struct, frozen=True):
    """Tests that are run with one configuration. `settings` is by section and option."""

    name: str
    tests: Mapping[str, Sequence[str]]
    settings: Mapping[str, Mapping[str, str]]
    whole: Sequence[str] = ()
    """Cases of which all tests are run but those that are left out."""
    left_out: Mapping[str, Sequence[str]] = {}
    """By case, regular expressions of tests' names."""
    count: int = 0
    """How many tests of whole cases have to pass."""
    workers: int = 1
    """How many tests are run at a time."""
    makes_users: bool = False
    """Whether each case has projects and users of its own, which Tempest makes and deletes."""

    def patterns(self) -> list[str]:
        """Return one pattern for each test, and one for each whole case."""
        return [*_patterns(self.tests), *(f"^{_literal(case)}[.]" for case in self.whole)]

    def patterns_left_out(self) -> list[str]:
        """Return the patterns of what is not run of whole cases."""
        return _patterns(self.left_out)

    def passing(self) -> int:
        """Return how many tests have to pass."""
        return sum(map(len, self.tests.values())) + self.count


def _patterns(tests: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one pattern for each test; what follows a test's name are its attributes."""
    return [
        rf"^{_literal(case)}[.]{test}(\[.*)?$" for case, names in tests.items() for test in names
    ]


def _literal(case: str) -> str:
    return case.replace(".", "[.]")


REBUILD = Part(
    "rebuild",
    {
        f"{_ACTIONS}.ServerActionsV293TestJSON": ("test_rebuild_volume_backed_server",),
        f"{_ACTIONS}.ServerActionsTestJSON": ("test_rebuild_server",),
        f"{_ACTIONS}.ServerActionsTestOtherA": (
            "test_rebuild_server_in_stop_state",
            "test_rebuild_server_with_volume_attached",
        ),
    },
    {
        "validation": {
            "run_validation": "true",
            "connect_method": "fixed",
            "network_for_ssh": STAND_IN,
            "security_group": "false",
            "security_group_rules": "false",
            "ssh_shell_prologue": "",
        },
        "service_available": {"neutron": "false"},
    },
)
"""The guests of these tests are logged in to."""

OTHERS = Part(
    "others",
    {
        f"{_ACTIONS}.ServerActionsTestJSON": (
            "test_get_console_output",
            "test_lock_unlock_server",
            "test_pause_unpause_server",
            "test_reboot_server_hard",
            "test_stop_start_server",
            "test_suspend_resume_server",
        ),
        f"{_ACTIONS}.ServerActionsTestOtherB": ("test_get_console_output_with_unlimited_size",),
        f"{_VOLUMES}.test_attach_volume.AttachVolumeTestJSON": (
            "test_attach_detach_volume",
            "test_list_get_volume_attachments",
        ),
        f"{_VOLUMES}.test_attach_volume.AttachVolumeMultiAttachTest": (
            "test_boot_from_multiattach_volume",
            "test_list_get_volume_attachments_multiattach",
        ),
        f"{_VOLUMES}.test_attach_volume_negative.AttachVolumeNegativeTest": (
            "test_attach_attached_volume_to_different_server",
            "test_attach_attached_volume_to_same_server",
            "test_delete_attached_volume",
        ),
        f"{_EXTEND}.VolumesExtendTest": (
            "test_volume_extend",
            "test_volume_extend_when_volume_has_snapshot",
        ),
        f"{_EXTEND}.VolumesExtendAttachedTest": ("test_extend_attached_volume",),
    },
    {
        "validation": {"run_validation": "false"},
        # Tempest skips tests of attached volumes where this is false; none asks for a network.
        "service_available": {"neutron": "true"},
    },
)


def write_accounts(cloud: Cloud, password: str, file: Path) -> None:
    """Write down the users that the tests log in as; `password` is that of those made for them."""
    passwords = {**passwords_of(cloud), READER: password, MANAGER: password}
    users = {
        "demo": ("demo", "member"),
        READER: ("demo", "reader"),
        MANAGER: ("demo", "manager"),
        "admin": ("admin", "admin"),
    }
    accounts = [
        {
            "username": user,
            "project_name": project,
            "domain_name": "Default",
            "password": passwords[user],
            "roles": [role],
        }
        for user, (project, role) in users.items()
    ]
    file.write_text(yaml.safe_dump(accounts), "utf-8")


def passwords_of(cloud: Cloud) -> dict[str, str]:
    """Return the passwords of the users that every new cloud has, by their names."""
    return msgspec.json.decode((cloud.state_dir / "passwords.json").read_bytes())


def whose(part: Part, cloud: Cloud, accounts: Path) -> dict[str, str]:
    """Return how a part comes by its users."""
    if not part.makes_users:
        return {"use_dynamic_credentials": "false", "test_accounts_file": str(accounts)}
    return {
        "use_dynamic_credentials": "true",
        "tempest_roles": "member",
        "admin_username": "admin",
        "admin_project_name": "admin",
        "admin_domain_name": "Default",
        "admin_password": passwords_of(cloud)["admin"],
    }


def write_configuration(
    part: Part, url: str, images: tuple[str, str], users: Mapping[str, str], directory: Path
) -> Path:
    """Write the configuration of a part and return its file; `users` is what `whose` says."""
    waiting = {"build_interval": "1", "build_timeout": "180"}
    sections: dict[str, dict[str, Any]] = {
        "DEFAULT": {"log_file": f"{directory / part.name}.log"},
        "oslo_concurrency": {"lock_path": str(directory / "locks")},
        "auth": {**users, "create_isolated_networks": "false"},
        "identity": {"uri_v3": f"{url}/identity/v3", "auth_version": "v3", "region": "RegionOne"},
        "compute": {
            "image_ref": images[0],
            "image_ref_alt": images[1],
            "flavor_ref": "42",
            "flavor_ref_alt": "84",
            "max_microversion": "latest",
            **waiting,
        },
        "compute-feature-enabled": {"volume_multiattach": "true"},
        "volume": {
            "catalog_type": "block-storage",
            "max_microversion": "latest",
            "volume_type_multiattach": SHARED,
            **waiting,
        },
        "volume-feature-enabled": {
            "extend_attached_volume": "true",
            "extend_volume_with_snapshot": "true",
        },
        "service_available": {"swift": "false"},
    }
    for section, options in part.settings.items():
        sections[section] = {**sections.get(section, {}), **options}
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_dict(sections)
    file = directory / f"{part.name}.conf"
    with file.open("w", encoding="utf-8") as opened:
        parser.write(opened)
    return file
