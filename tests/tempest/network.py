"""The network of the cloud under Tempest: its name, and the ports at which all of it answers."""

from __future__ import annotations

STAND_IN = "stand-in"
"""The name of the guests' network."""

CLOUD_PORT, PORT = 8470, 8471
"""Where the cloud listens, and where Tempest reaches it through the stand-in for guests."""
