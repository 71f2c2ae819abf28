import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from forecast.data import DataModule, downloaded_data
from forecast.system.errors import DataError
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
        body = {"/right": CONTENT, "/wrong": CONTENT + b"x", "/cut": CONTENT[: len(CONTENT) // 2]}.get(
            self.path
        )
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(CONTENT) if self.path == "/cut" else len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def published(root: Path, url: str | None, hash: str | None = SHA256, **options) -> DataModule:
    sizes = {"name": "published", "seq_len": 20, "pred_len": 6, "split": [0.7, 0.1, 0.2]}
    return downloaded_data(root=root, path="set.csv", url=url, hash=hash, **sizes, **options)


@pytest.mark.parametrize("hash", [SHA256, MD5])
def test_the_right_file_is_downloaded_once(tmp_path: Path, server: Server, hash: str):
    root = tmp_path / "not" / "yet" / "there"
    for _ in range(2):
        data = published(root, server.url("right"), hash)
        data.setup()
        assert data.n_windows == {"train": 185, "val": 25, "test": 55}
    assert (root / "set.csv").read_bytes() == CONTENT
    assert server.requests == ["/right"]


def test_a_file_already_there_is_used(tmp_path: Path, server: Server):
    (tmp_path / "set.csv").write_bytes(CONTENT)
    published(tmp_path, server.url("right")).setup()
    assert server.requests == []
    assert [file.name for file in tmp_path.iterdir()] == ["set.csv"]


def test_a_file_of_another_hash_is_replaced(tmp_path: Path, server: Server):
    (tmp_path / "set.csv").write_bytes(CONTENT[:100])
    published(tmp_path, server.url("right")).setup()
    assert (tmp_path / "set.csv").read_bytes() == CONTENT


@pytest.mark.parametrize("page", ["wrong", "cut", "missing"])
@pytest.mark.parametrize("before", [None, b"what was there"])
def test_a_bad_download_leaves_nothing_behind(
    tmp_path: Path, server: Server, page: str, before: bytes | None
):
    file = tmp_path / "set.csv"
    if before:
        file.write_bytes(before)
    with pytest.raises(
        DataError, match=r"cannot be downloaded .*: put it there by hand: from http"
    ) as refused:
        published(tmp_path, server.url(page)).setup()
    assert str(refused.value).startswith(str(file))
    assert "\n" not in str(refused.value)
    assert {left.name for left in tmp_path.iterdir()} <= {".set.csv.lock"} | (
        {"set.csv"} if before else set()
    )
    assert before is None or file.read_bytes() == before


def test_a_refused_connection_says_what_to_do_by_hand(tmp_path: Path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/right"
        with pytest.raises(DataError, match=r"cannot be downloaded .*refused.*by hand: ask the library"):
            published(tmp_path, url, by_hand="ask the library").setup()


def test_a_root_that_is_no_folder_is_refused(tmp_path: Path, server: Server):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match="cannot be downloaded"):
        published(tmp_path / "file", server.url("right")).setup()


def test_a_set_without_an_address_is_used_or_asked_for(tmp_path: Path):
    with pytest.raises(DataError, match="no such file: put it there by hand: make it"):
        published(tmp_path, None, None, by_hand="make it").setup()
    (tmp_path / "set.csv").write_bytes(CONTENT)
    published(tmp_path, None, None, by_hand="make it").setup()
    with pytest.raises(DataError, match="wrong hash"):
        published(tmp_path, None, "0" * 64, by_hand="make it").setup()


def test_jobs_started_together_download_once(tmp_path: Path, server: Server):
    jobs = [threading.Thread(target=published(tmp_path, server.url("right")).prepare_data) for _ in range(8)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert server.requests == ["/right"]
    assert (tmp_path / "set.csv").read_bytes() == CONTENT
