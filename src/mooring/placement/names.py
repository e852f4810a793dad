"""The names of traits and resource classes: which are standard, and which may be made.

Source: facts/identity_image_placement.md 9.2 and 9.9.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlalchemy import select

from mooring.errors import Invalid
from mooring.limits import PLACEMENT_NAME_CHARACTERS
from mooring.placement.standard_traits import STANDARD_TRAITS
from mooring.placement.tables import ResourceClassRow, TraitRow

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.orm import Session

STANDARD_CLASSES = (
    "VCPU",
    "MEMORY_MB",
    "DISK_GB",
    "PCI_DEVICE",
    "SRIOV_NET_VF",
    "NUMA_SOCKET",
    "NUMA_CORE",
    "NUMA_THREAD",
    "NUMA_MEMORY_MB",
    "IPV4_ADDRESS",
    "VGPU",
    "VGPU_DISPLAY_HEAD",
    "NET_BW_EGR_KILOBIT_PER_SEC",
    "NET_BW_IGR_KILOBIT_PER_SEC",
    "PCPU",
    "MEM_ENCRYPTION_CONTEXT",
    "FPGA",
    "PGPU",
    "NET_PACKET_RATE_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
)
SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"
CONCURRENT = "placement.concurrent_update"
"""The code of a conflict that reading again and trying again may end."""
BAD_VALUE = "placement.query.bad_value"
_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")


def is_custom(name: str) -> bool:
    """Tell whether a trait or resource class of this name may be made."""
    return len(name) <= PLACEMENT_NAME_CHARACTERS and bool(_CUSTOM.fullmatch(name))


def check_custom(kind: str, name: str) -> None:
    """Raise Invalid unless a trait or resource class (`kind`) of this name may be made."""
    if not is_custom(name):
        raise Invalid(
            f"The {kind} {name[:PLACEMENT_NAME_CHARACTERS]!r} cannot be made or deleted: only names"
            f" of CUSTOM_ and capitals, digits and underscores, {PLACEMENT_NAME_CHARACTERS} "
            "characters at most, can."
        )


def check_traits(tx: Session, names: Collection[str], *, code: str = "") -> None:
    """Raise Invalid, naming them, when some traits do not exist."""
    unknown = set(names) - STANDARD_TRAITS
    if unknown:
        unknown -= set(tx.scalars(select(TraitRow.name).where(TraitRow.name.in_(unknown))))
    _refuse_unknown("trait", unknown, code)


def check_classes(tx: Session, names: Collection[str], *, code: str = "") -> None:
    """Raise Invalid, naming them, when some resource classes do not exist."""
    unknown = set(names).difference(STANDARD_CLASSES)
    if unknown:
        known = select(ResourceClassRow.name).where(ResourceClassRow.name.in_(unknown))
        unknown -= set(tx.scalars(known))
    _refuse_unknown("resource class", unknown, code)


def _refuse_unknown(kind: str, unknown: Collection[str], code: str) -> None:
    if unknown:
        listed = ", ".join(sorted(unknown))
        detail = {"code": code} if code else {}
        raise Invalid(f"No such {kind}: {listed}. Make custom ones before you use them.", **detail)
