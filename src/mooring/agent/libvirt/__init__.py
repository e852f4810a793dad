"""The real hypervisor: QEMU through libvirt. Nothing else imports libvirt."""

import os

# libvirt's C library reads this when it is first loaded, and tells each guest's start otherwise.
os.putenv("LIBVIRT_LOG_OUTPUTS", "4:stderr")
