"""The certificates with which this host's guests go to other hosts, and come from them.

libvirt and QEMU read files of fixed names. All of them lie in one directory, `moves` in the state
directory: libvirt's daemon is told of it in libvirtd.conf, QEMU in qemu.conf, and the agent names
it in each move. `moves` is a link to the newest set, so a set is there whole or not at all.

Source: libvirt's remote.html ("Generating TLS certificates") and qemu.conf
(migrate_tls_x509_cert_dir).
"""

from __future__ import annotations

import os
import pwd
import shutil
from datetime import UTC, datetime
from pathlib import Path

import structlog

from mooring import certificates
from mooring.agent import membership, seclusion
from mooring.agent.settings import AgentSettings
from mooring.agent_api.certificates import MoveCertificates, ShownForMoves
from mooring.errors import Conflict
from mooring.secret_file import write_secret

log = structlog.get_logger()
LINK, KEY = "moves", "moves.key"
_SETS = f"{LINK}.set-"
_NAMES = {
    "authority": ("cacert.pem", "ca-cert.pem"),
    "server": ("servercert.pem", "server-cert.pem"),
    "client": ("clientcert.pem", "client-cert.pem"),
}
"""By the fields of `MoveCertificates`: what libvirt calls each, and what QEMU does."""
_KEYS = ("serverkey.pem", "server-key.pem", "clientkey.pem", "client-key.pem")


class MoveIdentity:
    """What this host shows to other hosts' daemons and emulators. Blocking."""

    def __init__(self, settings: AgentSettings) -> None:
        self._state_dir, self._name = settings.state_dir, settings.name

    @property
    def directory(self) -> Path:
        """Where the files are."""
        return (self._state_dir / LINK).absolute()

    def show(self) -> ShownForMoves:
        """Return the certificates, and a request for the next ones with a key of their own."""
        key = membership.ensure_key(self._state_dir / KEY)
        wish = certificates.make_request(key, self._name).decode("ascii")
        return ShownForMoves(is_wanted=True, held=self.read(), wish=wish)

    def take(self, given: MoveCertificates) -> None:
        """Show these from the next move on. Raises Conflict, Invalid; the same again is nothing."""
        if given == self.read():
            return
        file = self._state_dir / KEY
        key = membership.ensure_key(file)
        if not all(certificates.is_for(one.encode(), key) for one in (given.server, given.client)):
            raise Conflict("These certificates are for another key. Ask for the request again.")
        self._lay_down(given, key)
        file.unlink(missing_ok=True)

    def name(self) -> str:
        """Return the name by which other hosts know this one. Raises Conflict: none is valid."""
        held = self.read()
        now = datetime.now(UTC)
        ends = (
            [certificates.expiry(one.encode()) for one in (held.server, held.client)]
            if held
            else []
        )
        if held is None or min(ends) <= now:
            raise Conflict(
                f"Host {self._name} has no certificate for moves that is valid now. The control "
                "plane brings one to each host that joined: see mooring host list, and its log."
            )
        return certificates.enrolled_name(held.server.encode())

    def read(self) -> MoveCertificates | None:
        """Return what this host has, None for nothing."""
        found = {field: _read_text(self.directory / names[0]) for field, names in _NAMES.items()}
        return MoveCertificates(**found) if all(found.values()) else None

    def forget_former(self) -> None:
        """Remove what no move uses: other sets than the one that is linked, and a key that is used.

        A host that is killed while it takes certificates leaves them, and each set has a key.
        """
        linked = self._state_dir / LINK
        used = linked.readlink().name if linked.is_symlink() else ""
        for one in self._state_dir.glob(f"{_SETS}*"):
            if one.name != used:
                shutil.rmtree(one, ignore_errors=True)
        file = self._state_dir / KEY
        if file.exists() and file.read_text("ascii") == _read_text(linked / _KEYS[0]):
            file.unlink()

    def _lay_down(self, given: MoveCertificates, key: bytes) -> None:
        """Write a whole set of files, and let the link name it."""
        former = sorted(self._state_dir.glob(f"{_SETS}*"))
        made = self._state_dir / f"{_SETS}{certificates.fingerprint(given.client.encode())[:16]}"
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700)
        for field, names in _NAMES.items():
            for name in names:
                write_secret(made / name, getattr(given, field).encode())
        for name in _KEYS:
            write_secret(made / name, key)
        _let_emulators_read(made)
        fresh = self._state_dir / f"{LINK}.fresh"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(made.name)
        fresh.replace(self._state_dir / LINK)
        for old in former:
            if old != made:
                shutil.rmtree(old, ignore_errors=True)


def _read_text(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except FileNotFoundError:
        return ""


def _let_emulators_read(made: Path) -> None:
    """Let QEMU of the machine's daemon read what lies in a directory, and nobody else.

    It is the user whom the daemon's settings name.
    """
    if os.geteuid() != 0:
        return
    try:
        group = pwd.getpwnam(seclusion.emulator()).pw_gid
    except KeyError:
        return
    for path in made.iterdir():
        os.chown(path, 0, group)
        path.chmod(0o640)
    os.chown(made, 0, group)
    made.chmod(0o750)
