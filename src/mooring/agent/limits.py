"""Every limit of a host's agent, each with its reason; cited in the documentation."""

from __future__ import annotations

AGENT_PROGRAM_S = 60.0
"""How long one program that an agent starts may take, unless it copies a disk."""

AGENT_KILLED_S = 10.0
"""How long a killed program is waited for: the kernel keeps one that asked a silent mount."""

AGENT_COPY_S = 3600.0
"""How long the copy of a disk or an image may take."""

AGENT_PROGRAM_MEMORY_BYTES = 1024**3
"""Address space of one program: qemu-img on a hostile image must not eat the host."""

AGENT_COPY_MEMORY_BYTES = 4 * 1024**3
"""Address space of a copy: compressed images are unpacked by up to 64 threads with their stacks."""

AGENT_PROGRAM_OUTPUT_BYTES = 65536
"""How much of a program's output is kept; the rest is read and dropped."""

AGENT_WORKER_IDLE_S = 60.0
"""How long a helper process of an agent waits for its next call before it ends."""

AGENT_WORKER_MEMORY_BYTES = 2 * 1024**3
"""Address space of a helper process: os-brick and a vendor's library take a tenth of it."""

AGENT_MOUNT_S = 60.0
"""How long mounting or unmounting a share may take, with all the NFS versions that are tried."""

AGENT_MOUNTS_AT_ONCE = 4
"""Helper processes that mount: the second starts only while a share keeps the first one waiting."""

AGENT_MOUNT_ANSWER_S = 15.0
"""How long a mounted share may take to say how large it is; it counts as gone then."""

AGENT_MOUNT_FRESH_S = 5.0
"""How long a share that has answered is used without being asked again."""

AGENT_MOUNT_RETRY_S = 30.0
"""How long a share that kept its users waiting in vain is not tried again."""

AGENT_SHARE_RETRY_S = 10.0
"""How long a share rests that could not be given away again after its host's start."""

AGENT_POOL_ANSWER_S = 5.0
"""How long a host that is asked for its state waits for a pool, which may be behind a network."""

AGENT_POOL_THREADS = 8
"""How many calls wait for one pool's storage at a time; a dead one keeps that many threads."""

AGENT_ARRAY_S = 90.0
"""How long a call of a storage array's management may take, jobs it waits for included."""

AGENT_ARRAY_FRESH_S = 60.0
"""How long the capacity that an array told is believed; its volumes' records are always read."""

AGENT_CONSOLE_BYTES = 1024**2
"""How much of a guest's serial console is kept and shown: the end of it."""

AGENT_SERIAL_SESSIONS = 32
"""Serial ports of guests that are open on a host at a time; another one is refused."""

AGENT_SERIAL_BYTES = 64 * 1024
"""What waits of a guest's words for whoever has its serial port open; then the guest waits."""

AGENT_SERIAL_SILENT_S = 60.0
"""How long a serial port stays open whose caller asks for nothing: above AGENT_POLL_S."""

AGENT_EVENTS = 1000
"""News that an agent remembers; who asks later reads the guests instead."""

AGENT_IMAGE_BYTES = 2 * 1024**4
"""Largest image that an agent takes into its cache."""

AGENT_IMAGE_KEEP_S = 86400.0
"""How long an image that nobody uses stays in a host's cache: as long as with Nova."""

AGENT_IMAGE_LEAST_S = 3600.0
"""How long it stays when another needs its room: who wants it still waited long for a host."""

AGENT_IMAGE_SWEEP_S = 3600.0
"""How often a host looks for such images."""

AGENT_UNPLUG_ASK_S = 3.0
"""How long a guest is given to let go of a disk before it is asked again."""

AGENT_UNPLUG_S = 120.0
"""How long a guest is asked in all; a booting one hears nothing at first."""

AGENT_LAYERS = 256
"""Files that a guest's disk may consist of: each is a step more to read through."""

AGENT_MERGE_POLL_S = 0.2
"""How often a merge inside QEMU is looked at: libvirt tells of its end only who asks."""

AGENT_BODY_BYTES = 1024**2
"""Largest JSON body of a verb: a server with all its disks takes a few dozen KiB."""

AGENT_DRIVE_BYTES = 2 * 1024**2
"""Largest config drive: 128 items of metadata of the longest kind, and user data, fit into it."""

AGENT_KVM_LATER_S = 1.0
"""How much longer than without it KVM may take to boot one sector before it counts as unusable."""

AGENT_TICKET_S = 600.0
"""How long the outcome of a verb waits for whoever was answered 202."""

AGENT_LIBVIRT_THREADS = 16
"""Calls to libvirt at once that ask no guest's emulator; each of those has a thread of its own."""

AGENT_GUEST_ANSWER_S = 20.0
"""How long an agent waits for a guest's emulator: below AGENT_CALL_S, or its host seems silent."""

AGENT_COPY_BEGIN_S = 15.0
"""How long a guest stands still while QEMU looks what to copy: below AGENT_GUEST_ANSWER_S."""

AGENT_GUEST_START_S = 120.0
"""How long an agent waits for a new emulator: it may have much memory to find, or to read back."""

AGENT_GUEST_MEMORY_S = 540.0
"""How long a guest's memory may take to its file or back: below AGENT_LONG_CALL_S, to say so."""

AGENT_ACPI_ASK_S = 5.0
"""How long a guest is given to shut down before it is asked again; a booting one hears nothing."""

AGENT_BACKLOG = 1024
"""Callers that may wait for an agent to accept them."""

AGENT_RESIZE_TRIES = 4
"""A disk whose guest stops or starts in the middle of its growth is begun anew so often."""
