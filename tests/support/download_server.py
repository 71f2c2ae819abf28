"""A published data set, and a local server that it is downloaded from."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from forecast.data import DataModule, downloaded_data
from tests.support.csv_files import numbers

CONTENT = numbers(300).to_csv(index=False).encode()
SHA256 = hashlib.sha256(CONTENT).hexdigest()
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves CONTENT at /right, other bytes at /wrong, half of CONTENT at /cut, 404 elsewhere; counts requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[str] = []

    def url(self, page: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{page}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        body = {"/right": CONTENT, "/wrong": CONTENT + b"x", "/cut": CONTENT[: len(CONTENT) // 2]}.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(CONTENT) if self.path == "/cut" else len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def published(root: Path, url: str | None, hash: str | None = SHA256, **options) -> DataModule:
    sizes = {"name": "published", "seq_len": 20, "pred_len": 6, "split": [0.7, 0.1, 0.2]}
    return downloaded_data(root=root, path="set.csv", url=url, hash=hash, **sizes, **options)
