"""A published data set is downloaded once, and a bad download leaves nothing behind."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forecast.system.errors import DataError
from tests.support.download_server import CONTENT, MD5, SHA256, Server, published, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.mark.parametrize("hash", [SHA256, MD5])
def test_the_right_file_is_downloaded_once(tmp_path: Path, server: Server, hash: str):
    root = tmp_path / "not" / "yet" / "there"
    for _ in range(2):
        data = published(root, server.url("right"), hash)
        data.setup()
        assert data.n_windows == {"train": 185, "val": 25, "test": 55}
    assert (root / "set.csv").read_bytes() == CONTENT
    assert server.requests == ["/right"]


@pytest.mark.parametrize("page", ["wrong", "cut", "missing"])
@pytest.mark.parametrize("before", [None, b"what was there"])
def test_a_bad_download_leaves_nothing_behind(
    tmp_path: Path, server: Server, page: str, before: bytes | None
):
    file = tmp_path / "set.csv"
    if before:
        file.write_bytes(before)
    with pytest.raises(DataError):
        published(tmp_path, server.url(page)).setup()
    assert {left.name for left in tmp_path.iterdir()} <= {".set.csv.lock"} | (
        {"set.csv"} if before else set()
    )
    assert before is None or file.read_bytes() == before


def test_a_file_of_another_hash_is_replaced(tmp_path: Path, server: Server):
    (tmp_path / "set.csv").write_bytes(CONTENT[:100])
    published(tmp_path, server.url("right")).setup()
    assert (tmp_path / "set.csv").read_bytes() == CONTENT


def test_jobs_started_together_download_once(tmp_path: Path, server: Server):
    jobs = [threading.Thread(target=published(tmp_path, server.url("right")).prepare_data) for _ in range(8)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert server.requests == ["/right"]
    assert (tmp_path / "set.csv").read_bytes() == CONTENT
