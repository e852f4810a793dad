"""Faults seeded in config drives: whose they are, when they change, and what stands on them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

AGENT, COMPUTE = "tests/agent/test_config_drives.py", "tests/compute/test_config_drives.py"
SIMULATED, SPECIFIED = "agent/simulated_drives.py", "compute/drives/config_drives.py"

MUTANTS = [
    Mutant(
        "a guest that runs loses the drive that it reads",
        SIMULATED,
        "        if guest.state not in _HAS_OPEN:\n",
        "        if guest.state:\n",
        AGENT,
        "simulated and reads_its_drive",
    ),
    Mutant(
        "a drive may be read by everybody",
        "agent/files.py",
        "os.O_EXCL, 0o600)",
        "os.O_EXCL, 0o644)",
        AGENT,
        "simulated and reads_its_drive",
    ),
    Mutant(
        "a drive stays when its guest is forgotten",
        "agent/simulated_disks.py",
        "        config_drives.take_up(self.guest_directory / server_id)\n",
        "",
        AGENT,
        "simulated and forgotten_without",
    ),
    Mutant(
        "a guest is sent to a host without its drive",
        "agent/move_checks.py",
        "    if guest.has_drive and not arrival.drive:\n",
        "    if guest.image_id and not arrival.root:\n",
        AGENT,
        "is_sent_finds",
    ),
    Mutant(
        "what comes as a drive may be of any size",
        "agent/config_drives.py",
        "    if not decompressor.eof or len(image) > AGENT_DRIVE_BYTES:\n",
        "    if not image:\n",
        AGENT,
        "does_not_come",
    ),
    Mutant(
        "older versions tell of shares",
        "agent/config_drives.py",
        'if shows_shares or one["type"] != "share"',
        'if shows_shares or one["type"]',
        AGENT,
        "each_version",
    ),
    Mutant(
        "files of an image overlap",
        "agent/iso9660.py",
        "            end += _sectors(len(content))\n",
        "            end += len(content) // SECTOR\n",
        "tests/agent/test_iso9660.py",
    ),
    Mutant(
        "a host that makes no drives is chosen",
        SPECIFIED,
        "    return [TRAIT] if has_drive else []\n",
        "    return []\n",
        COMPUTE,
        "makes_none_is_not_chosen",
    ),
    Mutant(
        "a start tells the guest nothing",
        "compute/power/sagas/power_request.py",
        "        drive = await config_drives.read(run, notes.server_id, notes.host)\n",
        "",
        COMPUTE,
        "next_start_on",
    ),
    Mutant(
        "a guest that is back is told what its rebuild said",
        SPECIFIED,
        "        meta=drive.meta if meta is None else meta,\n",
        "        meta=drive.meta,\n",
        COMPUTE,
        "tells_the_guest_what_it_was",
    ),
]
