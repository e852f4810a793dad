"""The file of a host's pools: whole, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.agent.storage_file import read_storage
from mooring.errors import Invalid

NETAPP = """
[[pools]]
name = "fast"
driver = "netapp_nfs"
[pools.netapp_nfs]
nas_host = "192.0.2.7"
nas_share_path = "/volumes"
netapp_server_hostname = "192.0.2.1"
netapp_login = "admin"
netapp_password = "secret"
netapp_vserver = "svm1"
"""


def write(directory: Path, text: str, mode: int = 0o600) -> str:
    path = directory / "storage.toml"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_pools_and_mounts_are_read(tmp_path: Path) -> None:
    mounts = '[mounts]\nnfs_mount_options = "hard"\n'
    storage = read_storage(write(tmp_path, NETAPP + mounts))
    assert storage.mounts.nfs_mount_options == "hard"
    [pool] = storage.pools
    assert (pool.name, pool.driver) == ("fast", "netapp_nfs")
    assert pool.netapp_nfs is not None
    assert pool.netapp_nfs.netapp_vserver == "svm1"


def test_no_file_names_no_pool() -> None:
    assert read_storage("").pools == ()


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        (NETAPP, 0o644, "chmod 600"),
        ("[[pools]", 0o600, "is no TOML: .* correct it"),
        ('[[pools]]\ndriver = "cephfs"', 0o600, "does not fit"),
        ("[[pool]]", 0o600, "unknown field `pool`"),
        ('[[pools]]\ndriver = "nfs"\n[pools.nfs]\nnas_hots = "h"', 0o600, "nas_hots"),
    ],
)
def test_what_does_not_fit_is_told_in_one_line(
    tmp_path: Path, text: str, mode: int, told: str
) -> None:
    with pytest.raises(Invalid, match=told) as caught:
        read_storage(write(tmp_path, text, mode))
    assert "\n" not in caught.value.public
    assert "secret" not in str(caught.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"none\.toml does not exist"):
        read_storage(str(tmp_path / "none.toml"))
