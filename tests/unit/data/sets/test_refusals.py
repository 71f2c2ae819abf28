"""Published data sets that cannot be had, with the text of each message."""

import socket
from pathlib import Path

import pytest

from forecast.system.errors import DataError
from tests.support.csv_files import write
from tests.support.download_server import CONTENT, published, serving
from tests.support.refusals import Refusal


def downloaded(page: str, says: str) -> Refusal:
    def call(folder: Path) -> None:
        with serving() as server:
            published(folder, server.url(page)).setup()

    return Refusal(page, says, DataError, call)


def refused_connection(folder: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/right"
        published(folder, url, by_hand="ask the library").setup()


def wrong_hash(folder: Path) -> None:
    write(folder, CONTENT, "set.csv")
    published(folder, None, "0" * 64, by_hand="make it").setup()


REFUSED = [
    downloaded("missing", "set.csv: cannot be downloaded (404 Client Error: Not Found for url: …): put it there by hand: from http://…/missing"),
    Refusal("a refused connection", "set.csv: cannot be downloaded (…refused…): put it there by hand: ask the library", DataError, refused_connection),
    Refusal("no address", "set.csv: no such file: put it there by hand: make it", DataError, lambda folder: published(folder, None, None, by_hand="make it").setup()),
    Refusal("a file of another hash", "set.csv: not the published file (wrong hash): put it there by hand: make it", DataError, wrong_hash),
]  # fmt: skip


@pytest.mark.parametrize("refusal", REFUSED, ids=lambda refusal: refusal.what)
def test_what_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    refusal.check(tmp_path)
