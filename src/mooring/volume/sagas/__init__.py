"""The sagas of the volume service. Importing this files each in the registry."""

from mooring.volume.sagas import (
    connect_attachment,
    connect_legacy,
    create_volume,
    delete_attachment,
    delete_volume,
    extend_volume,
    reset_status,
)

__all__ = [
    "connect_attachment",
    "connect_legacy",
    "create_volume",
    "delete_attachment",
    "delete_volume",
    "extend_volume",
    "reset_status",
]
