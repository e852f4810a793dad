"""The real hypervisor: QEMU through libvirt. Nothing else imports libvirt."""

import os

# Read by libvirt's C library when it is loaded. Its errors reach us as exceptions and are logged as
# such; what it would print beside them is about the machine and nobody's concern.
os.putenv("LIBVIRT_LOG_OUTPUTS", "4:file:/dev/null")
