"""A scheduler extender as a program of its own: it lets every node pass and likes names of even length.

python -m tests.e2e.soak.extender PORT
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Filter and prioritize, with whole nodes in the request."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        nodes = (asked.get("Nodes") or asked.get("nodes") or {}).get("items") or []
        if self.path.endswith("/filter"):
            answer: object = {"Nodes": {"items": nodes}, "FailedNodes": {}, "Error": ""}
        else:
            names = [node["metadata"]["name"] for node in nodes]
            answer = [{"Host": name, "Score": 10 * (len(name) % 2)} for name in names]
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: thousands of requests are normal."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
