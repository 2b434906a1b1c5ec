"""A server that says who it is, and is ready while a file says so: a program."""

import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

ROOT = Path(os.environ["LIGHT_NODE_ROOT"])


class Greeter(BaseHTTPRequestHandler):
    def do_GET(self):
        is_well = not (ROOT / self.path.strip("/")).exists()
        self.send_response(200 if is_well else 500)
        self.end_headers()
        self.wfile.write(" ".join([os.environ["NAME"], *sys.argv[1:]]).encode())

    def log_message(self, *_):
        pass


def end(*_):
    sys.stdout.write("ends well\n")
    sys.exit(0)


signal.signal(signal.SIGTERM, end)
HTTPServer((os.environ["LIGHT_NODE_ADDRESS"], 8081), Greeter).serve_forever()
