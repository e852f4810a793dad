"""The addresses of everything that `make beside` runs, in a network of its own."""

from __future__ import annotations

CLOUD_PORT, BROKER_PORT = 8470, 5672
NOVA_PORT, CINDER_PORT, MANILA_PORT, NETWORK_PORT = 8774, 8776, 8786, 9696
CLOUD = f"http://127.0.0.1:{CLOUD_PORT}"
NOVA = f"http://127.0.0.1:{NOVA_PORT}/v2.1"
CINDER = f"http://127.0.0.1:{CINDER_PORT}/v3"
MANILA = f"http://127.0.0.1:{MANILA_PORT}/v2"
NETWORK = f"http://127.0.0.1:{NETWORK_PORT}"
