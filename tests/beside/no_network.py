"""A network service without a network: a real Nova asks one for each server that it shows.

Whatever is listed there is none of, and nothing can be made.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.beside.network import NETWORK, NETWORK_PORT
from tests.contract.clients import Cloud

_LISTS = ("extensions", "floatingips", "networks", "ports", "security-groups", "subnets")


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer a list with an empty one, anything else with 404."""
        name = self.path.partition("?")[0].rpartition("/")[2].removesuffix(".json")
        is_list = name in _LISTS
        key = name.replace("-", "_")
        content = json.dumps({key: []} if is_list else {"NeutronError": "not found"}).encode()
        self.send_response(200 if is_list else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    # The library calls it so.
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@contextmanager
def no_network(cloud: Cloud) -> Generator[None]:
    """Serve it, and have it in the catalogue, until the context is left."""
    admin, path = cloud.http("admin"), "/identity/v3"
    service = {"service": {"type": "network", "name": "none"}}
    made = admin.ask("POST", f"{path}/services", service).key("service")
    for interface in ("public", "internal", "admin"):
        endpoint = {"interface": interface, "region_id": "RegionOne", "url": NETWORK}
        body = {"endpoint": {**endpoint, "service_id": made["id"]}}
        admin.ask("POST", f"{path}/endpoints", body).key("endpoint")
    server = ThreadingHTTPServer(("127.0.0.1", NETWORK_PORT), _Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
