"""The Dockerfile: its context has what the package is built from, and its health check tells whether a server answers.

The image itself is not built here: that needs a registry with its base image.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from support.c_build import ROOT


def test_the_context_has_what_the_package_is_built_from() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    kept = {line[1:] for line in lines if line.startswith("!")}
    packages = re.findall(r'^"asr[^"]*" = "([^"]+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(packages) == 4
    assert kept == {*packages, "CMakeLists.txt", "cmake", "csrc", "pyproject.toml", "README.md", "LICENSE"}
    assert all((ROOT / name).exists() for name in kept)


def test_a_server_is_healthy_if_it_answers() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    found = re.search(r"^HEALTHCHECK .*? CMD (\[.*\])$", text, re.MULTILINE)
    assert found
    python, option, code = json.loads(found[1])
    assert python == "/opt/asr-stream/bin/python" and option == "-c"

    class Full(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503 if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Full)
    check = [sys.executable, "-c", code.replace("8000", str(server.server_port))]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        assert subprocess.run(check, timeout=60).returncode == 0
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert subprocess.run(check, capture_output=True, timeout=60).returncode != 0
