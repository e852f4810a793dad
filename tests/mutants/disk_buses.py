"""Faults seeded in what the disks of servers are on."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

COMPUTE, AGENT = "tests/compute/test_disk_buses.py", "tests/contract/test_disk_buses.py"
BUSES = "compute/volumes/buses.py"

MUTANTS = [
    Mutant(
        "a volume that comes to a running guest is on virtio, whatever was asked",
        "compute/volumes/volume_attachments.py",
        'disk_bus=None if server.disk_bus == "virtio" else server.disk_bus,',
        "disk_bus=None,",
        COMPUTE,
        "before_the_image",
    ),
    Mutant(
        "a mapping does not go before its image",
        "compute/create/block_devices.py",
        'return buses.BUSES.get(item.disk_bus or "", usual)',
        "return usual",
        COMPUTE,
        "before_the_image",
    ),
    Mutant(
        "a disk on sata is to come to a guest that runs",
        BUSES,
        'if bus == "sata" and server.vm_state not in _OFF:',
        'if bus == "sata" and not server.vm_state:',
        COMPUTE,
        "while_the_server_is_off",
    ),
    Mutant(
        "a host is not asked for the bus of a server's own disks",
        "compute/scheduling/needs.py",
        ", *buses.traits_of_server(server)]",
        "]",
        COMPUTE,
        "older_agent",
    ),
    Mutant(
        "a rebuild that is undone leaves the root disk the new name",
        "compute/rebuild/sagas/rebuild_steps.py",
        'notes.before.get("root_device_name"), run.now())',
        "None, run.now())",
        COMPUTE,
        "undone",
    ),
    Mutant(
        "a simulated guest takes a disk on sata while it runs",
        "agent/disk_checks.py",
        '    if bus == "sata":\n',
        '    if bus == "ide":\n',
        AGENT,
        "simulated and only_while_the_guest_is_off",
    ),
    Mutant(
        "the controller for disks that come later goes with the last of them",
        "agent/libvirt/disk_addresses.py",
        '    buses.add(child(domain, GUEST).get(_READY, ""))\n',
        "",
        "tests/agent/test_domain_xml.py",
        "its_place",
    ),
]
