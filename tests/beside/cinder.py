"""A real Cinder beside Mooring, configured as docs/beside-openstack.md says.

Its volumes are files of a share, which Cinder's driver `nfs` and Mooring's hosts mount with
`mount -t nfs`. Behind that stands `mount_nfs.py`, for kernels without NFS.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mooring.agent.mounts import read_mount_points
from tests.beside.network import CINDER_PORT
from tests.beside.programs import PROGRAMS, SITE, Running, run, serve, write_ini
from tests.beside.services import Beside, database, login, make_databases, middleware

HELPER = Path("/sbin/mount.nfs")


def mount_by_directories(home: Path) -> None:
    """Let shares be directories of this machine, for whoever is in this mount namespace."""
    program = home / "mount.nfs"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {SITE}/mount_nfs.py "$@"\n', "utf-8")
    program.chmod(0o755)
    subprocess.run(["mount", "--bind", program, HELPER.resolve()], check=True)


def configure(at: Beside) -> Path:
    """Write Cinder's configuration."""
    home, mine = at.home, login("volume", at.passwords)
    share = home / "share"
    share.mkdir(parents=True)
    # All of it is root here, and nobody's configuration says whom `sudo` may make root.
    helper = {"helper_command": f"{PROGRAMS}/privsep-helper --config-file {home}/cinder.conf"}
    sections: dict[str, dict[str, str]] = {
        "DEFAULT": {
            "transport_url": at.broker,
            "host": "cinder",
            "my_ip": "127.0.0.1",
            "state_path": str(home),
            "api_paste_config": str(PROGRAMS.parent / "etc/cinder/api-paste.ini"),
            "auth_strategy": "keystone",
            "glance_catalog_info": "image:glance:publicURL",
            "enabled_backends": "files",
            "report_interval": "2",
            "osapi_volume_workers": "1",
        },
        "files": {
            "volume_driver": "cinder.volume.drivers.nfs.NfsDriver",
            "volume_backend_name": "files",
            "nas_host": "127.0.0.1",
            "nas_share_path": str(share),
            "nas_secure_file_operations": "false",
            "nas_secure_file_permissions": "false",
            "nfs_snapshot_support": "true",
            "nfs_mount_point_base": str(home / "mnt"),
        },
        "oslo_concurrency": {"lock_path": str(home / "locks")},
        "database": {"connection": database(at.postgres, "cinder")},
        "keystone_authtoken": middleware(mine),
        "service_user": {**mine, "send_service_user_token": "true"},
        "cinder_sys_admin": helper,
        "privsep_osbrick": helper,
        "nova": {"interface": "public", **mine},
    }
    return write_ini(home / "cinder.conf", sections)


@contextmanager
def run_cinder(at: Beside) -> Generator[Running]:
    """Run a Cinder until the context is left."""
    with Running(at.home) as running:
        conf = configure(at)
        mount_by_directories(at.home)
        make_databases(at.postgres, ("cinder",))
        run(at.home, PROGRAMS / "cinder-manage", "--config-file", conf, "db", "sync")
        for name in ("cinder-scheduler", "cinder-volume"):
            running.start(name, PROGRAMS / name, "--config-file", conf)
        files = {"OS_CINDER_CONFIG_DIR": str(at.home), "OS_CINDER_CONFIG_FILES": conf.name}
        serve(running, "cinder.wsgi.api", CINDER_PORT, files)
        running.until_answers(CINDER_PORT)
        yield running
    # Cinder leaves its share mounted.
    for point in read_mount_points(Path("/proc/self/mountinfo")):
        if point.is_relative_to(at.home):
            subprocess.run(["umount", "--", point], check=True)
