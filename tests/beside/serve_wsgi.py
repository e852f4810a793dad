"""Serve the WSGI application of a module: `serve_wsgi.py nova.wsgi.osapi_compute PORT`.

Run by the environment of the real services, whose releases leave the server to the operator.
"""

from __future__ import annotations

import importlib
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer


class Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection."""

    daemon_threads = True
    request_queue_size = 128

    def server_bind(self) -> None:
        # The one of the library asks for the name of the address, and there is nobody to ask.
        self.socket.setsockopt(1, 2, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]
        self.setup_environ()


class Handler(WSGIRequestHandler):
    """Logs nothing: the applications log their requests."""

    def address_string(self) -> str:
        return "127.0.0.1"

    # The library calls it so.
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def main() -> None:
    """Serve until the process is ended."""
    module, port = sys.argv[1:3]
    # What the application reads of its command line is none of ours.
    sys.argv[1:] = []
    application = importlib.import_module(module).application
    server = Server(("127.0.0.1", int(port)), Handler)
    server.set_app(application)
    server.serve_forever()


if __name__ == "__main__":
    main()
