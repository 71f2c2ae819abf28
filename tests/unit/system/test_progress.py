import fcntl
import io
import os
import pty
import select
import struct
import sys
import termios
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from forecast.system.progress import bar
from forecast.training.callbacks import ProgressBar


def render(text: str) -> tuple[list[str], int]:
    """The lines that a terminal shows, and the column of its cursor."""
    lines, row, column = [""], 0, 0
    for part in text.replace("\x1b[A", "\0"):
        if part == "\r":
            column = 0
        elif part == "\0":
            row -= 1
        elif part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        else:
            lines[row] = lines[row].ljust(column)[:column] + part + lines[row][column + 1 :]
            column += 1
    return lines, column


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Callable[[], str]]]:
    opened = []

    def open_terminal(columns: int) -> Callable[[], str]:
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        written = os.fdopen(follower, "w")
        opened.extend([leader, written])
        monkeypatch.setattr(sys, "stderr", written)

        def read() -> str:
            written.flush()
            content = b""
            while select.select([leader], [], [], 0.1)[0]:
                content += os.read(leader, 1 << 16)
            return content.decode()

        return read

    yield open_terminal
    for file in opened:
        os.close(file) if isinstance(file, int) else file.close()


def test_a_bar_below_a_delayed_one_leaves_the_cursor_at_the_left(terminal) -> None:
    read = terminal(80)
    with bar(3, "outer", ""), bar(50, "inner", "", delay=0.0) as inner:
        inner.update(20)
        inner.refresh()
    lines, column = render(read())
    assert column == 0
    assert not any(line.strip() for line in lines)


def show_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgressBar, "total_train_batches", 1_600)
    scores = {"val/mse": 0.0795, "val/mae": 0.203}
    trainer = SimpleNamespace(current_epoch=11, progress_bar_metrics=scores)
    shown = ProgressBar()
    shown.on_train_batch_start(trainer, None, None, 0)  # type: ignore[arg-type]
    shown.on_train_batch_end(trainer, None, {"loss": 0.0876}, None, 1_599)  # type: ignore[arg-type]
    shown.on_train_epoch_end(trainer, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [30, 80, 200])
def test_an_epoch_fits_the_width_with_its_score(terminal, monkeypatch, columns: int) -> None:
    read = terminal(columns)
    show_epoch(monkeypatch)
    lines, _ = render(read())
    assert [line[:23] for line in lines if line] == ["epoch 12, val/mse=0.079"]
    assert len(lines[0]) <= columns
    if columns > 60:
        assert lines[0].startswith("epoch 12, val/mse=0.0795, val/mae=0.203, loss=0.0876: 100%|")
        assert "| 1600/1600 [00:0" in lines[0]


def test_an_epoch_is_one_line_of_a_log(monkeypatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    show_epoch(monkeypatch)
    assert log.getvalue().count("\n") == 1
    assert "\r" not in log.getvalue()
    assert "val/mse=0.0795" in log.getvalue()
