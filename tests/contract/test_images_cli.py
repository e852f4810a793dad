"""Identity and images by the stock `openstack` command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.clients import MIB, Refused, Shell

pytestmark = pytest.mark.contract
TYPES = {"identity", "image", "placement", "block-storage", "shared-file-system", "compute"}


def test_a_token_is_issued_and_every_service_is_in_the_catalogue(demo: Shell) -> None:
    token, catalogue = demo.ask_each(("token", "issue"), ("catalog", "list"))
    assert set(token) == {"expires", "id", "project_id", "user_id"}
    assert {row["Type"] for row in catalogue} == TYPES
    urls = {point["url"] for row in catalogue for point in row["Endpoints"]}
    assert len(urls) == len(TYPES)


def test_an_image_is_uploaded_saved_and_deleted(demo: Shell, tmp_path: Path) -> None:
    content = bytes(range(256)) * (MIB // 256)
    source, saved = tmp_path / "disk.img", tmp_path / "saved.img"
    source.write_bytes(content)
    options = ("--disk-format", "raw", "--property", "os_distro=debian", "--tag", "blue")
    made = demo.ask("image", "create", "disk", "--file", str(source), *options)
    assert (made["status"], made["size"], made["visibility"]) == ("active", MIB, "shared")
    listed, shown = demo.ask_each(
        ("image", "list", "--long", "--name", "disk"), ("image", "show", "disk")
    )
    [row] = listed
    assert (row["Disk Format"], row["Container Format"]) == ("raw", "bare")
    assert row["Checksum"] == shown["checksum"]
    assert (shown["properties"]["os_distro"], shown["tags"]) == ("debian", ["blue"])
    demo.run("image", "save", "disk", "--file", str(saved))
    assert saved.read_bytes() == content
    demo.run("image", "set", "disk", "--name", "plate", "--property", "os_distro=arch")
    assert demo.ask("image", "show", "plate")["properties"]["os_distro"] == "arch"
    demo.run("image", "delete", "plate")
    with pytest.raises(Refused, match="No Image found for plate"):
        demo.run("image", "show", "plate")


def test_a_project_has_as_many_images_as_its_limit_says(demo: Shell, operator: Shell) -> None:
    """The commands of docs/image-quotas.md."""
    registered = operator.ask(
        *("registered", "limit", "create", "--service", "glance"),
        *("--default-limit", "100", "image_count_total"),
    )
    limit = operator.ask(
        *("limit", "create", "--service", "glance", "--project", "demo"),
        *("--resource-limit", "0", "image_count_total"),
    )
    with pytest.raises(Refused, match="over a limit for image_count_total"):
        demo.run("image", "create", "one-too-many")
    operator.run("limit", "set", "--resource-limit", "-1", limit["id"])
    demo.run("image", "create", "one-more")
    demo.run("image", "delete", "one-more")
    operator.run("limit", "delete", limit["id"])
    operator.run("registered", "limit", "delete", registered["id"])
