"""Published CSV files: used from the folder `root` if the hash is correct, else downloaded and checked."""

import os
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from forecast.data.files.file_source import FileSource
from forecast.data.panel import Panel
from forecast.system.errors import ConfigError, DataError
from forecast.system.paths import user_path

_TIMEOUT = 30  # seconds without an answer of the server


@dataclass(kw_only=True)
class DownloadedSource(FileSource):
    """The table in the file `path` below `root`.

    A file that is missing or has another hash is downloaded to a temporary place, checked, and moved to `path`, once
    for all processes.

    Args:
        root: folder of the downloaded files.
        url: address of the file; None: the file is not downloaded.
        hash: SHA-256 of the file, or `md5:…`; None: the file is not checked.
        by_hand: where to find the file, for error messages; None: at `url`.

    Raises:
        ConfigError: `path` is outside of `root`, where a download could replace other files.
        DataError: the download failed; the message says where to place the file by hand.
    """

    root: str | Path
    url: str | None
    hash: str | None
    by_hand: str | None = None

    def __post_init__(self) -> None:
        path, self.path = self.path, Path(self.root) / self.path
        super().__post_init__()
        below = Path(os.path.abspath(self.path)).is_relative_to(os.path.abspath(user_path(self.root)))
        if self.url is not None and not below:
            raise ConfigError(
                f"data.path={path}: not below data.root={self.root}, where a downloaded set lies; a file of your own "
                f"is data=csv data.path={path}"
            )
        self.by_hand = self.by_hand or f"from {self.url}"

    def prepare(self) -> None:
        if self._is_right():
            return
        import pooch

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
        except (OSError, ValueError) as error:  # an error of the connection is an OSError
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
        if self.hash is None:
            return True
        from pooch.hashes import hash_matches

        return hash_matches(str(self.path), self.hash)
