"""Published CSV files: used from the folder `root` if the hash is correct, else downloaded and checked."""

import os
from pathlib import Path
from typing import Any

import pooch
import requests
from filelock import FileLock
from pooch.hashes import hash_matches

from forecast.data.files.file_source import FileSource
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError, DataError

_TIMEOUT = 30  # seconds without an answer of the server


class DownloadedSource(FileSource):
    """The table in the file `path` below `root`.

    `hash` is the file's SHA-256, or `md5:…`; with null the file is not checked. A file that is missing or has another
    hash is downloaded from `url` to a temporary place, checked, and moved to `path`, once for all processes. `by_hand`
    says in error messages where the file comes from (default: `url`).

    Raises:
        ConfigError: `path` is outside of `root`, where a download could replace other files.
        DataError: the download failed; the message says where to place the file by hand.
    """

    def __init__(
        self,
        *,
        root: str | Path,
        path: str | Path,
        url: str | None,
        hash: str | None,
        by_hand: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path=Path(root) / path, **options)
        below = Path(os.path.abspath(self.path)).is_relative_to(os.path.abspath(Path(root).expanduser()))
        if url is not None and not below:
            raise ConfigError(
                f"data.path={path}: not below data.root={root}, where a downloaded set lies; a file of your own is "
                f"data=csv data.path={path}"
            )
        self.url, self.hash, self.by_hand = url, hash, by_hand or f"from {url}"

    def prepare(self) -> None:
        if self._is_right():
            return
        if self.url is None:
            found = "not the published file (wrong hash)" if self.path.exists() else "no such file"
            raise DataError(f"{self.path}: {found}: put it there by hand: {self.by_hand}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.parent / f".{self.path.name}.lock"):
                pooch.retrieve(
                    self.url,
                    self.hash,
                    fname=self.path.name,
                    path=self.path.parent,
                    downloader=pooch.HTTPDownloader(timeout=_TIMEOUT),  # pyright: ignore[reportArgumentType]
                )
        except (OSError, ValueError, requests.RequestException) as error:
            reason = " ".join(str(error).split())
            raise DataError(
                f"{self.path}: cannot be downloaded ({reason}): put it there by hand: {self.by_hand}"
            ) from None

    def read(self) -> Panel:
        self.prepare()
        return super().read()

    def _is_right(self) -> bool:
        if not self.path.is_file():
            return False
        return self.hash is None or hash_matches(str(self.path), self.hash)
