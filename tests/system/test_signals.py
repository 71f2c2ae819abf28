"""A signal stops a run with status 75 wherever it arrives, and never as a user's mistake."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from forecast.system import signals
from tests.support import figure_process

MESSAGE = "stopped by SIGTERM while it drew figures; repeat the command with resume=auto to continue"


@pytest.mark.parametrize("call", [1, 2, 3, 7])
def test_a_signal_below_a_callback_of_c_code_stops_the_run(tmp_path: Path, call: int) -> None:
    """The C code of matplotlib turns an exception raised there into `ValueError: Invalid bounding box`."""
    process = figure_process.start(tmp_path, signal_in_callback=call)
    process.join(60)
    assert (process.exitcode, (tmp_path / "output.txt").read_text().strip()) == (signals.STATUS, MESSAGE)


@pytest.mark.slow
def test_a_signal_at_any_moment_of_drawing_stops_the_run(tmp_path: Path) -> None:
    draw = random.Random(0)
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        process = figure_process.start(folder)
        while not (folder / "figure.png").exists() and process.is_alive():
            time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.3))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGTERM)
        process.join(60)
        assert (process.exitcode, (folder / "output.txt").read_text().strip()) == (signals.STATUS, MESSAGE)


@pytest.fixture(autouse=True)
def handlers():
    """Restore the handlers, which a run that was stopped leaves off: subprocesses of later tests would inherit that."""
    before = {number: signal.getsignal(number) for number in signals.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def listening():
    with signals.listening():
        yield
        signals._received = None


def told() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_the_handler_raises_nothing_and_the_safe_point_does(
    listening: None, capsys: pytest.CaptureFixture[str]
) -> None:
    signals.exit_if_received()
    told()
    told()
    assert signals.received()
    with pytest.raises(SystemExit) as stop:
        signals.exit_if_received(" here")
    assert stop.value.code == signals.STATUS
    assert capsys.readouterr().err.startswith("stopped by SIGTERM here; ")


def test_training_saves_its_state_before_the_run_stops(listening: None) -> None:
    saved = []

    def train() -> None:
        with signals.deferred():
            told()
            signals.exit_if_received()
            saved.append("state")

    with pytest.raises(SystemExit) as stop:
        train()
    assert (saved, stop.value.code) == (["state"], signals.STATUS)


def test_an_exit_of_lightnings_own_keeps_the_status(listening: None) -> None:
    def train() -> None:
        with signals.deferred():
            told()
            raise SystemExit

    with pytest.raises(SystemExit) as stop:
        train()
    assert stop.value.code == signals.STATUS


def test_a_thread_never_stops_the_run(listening: None) -> None:
    told()
    passed = []
    thread = threading.Thread(target=lambda: (signals.exit_if_received(), passed.append(True)))
    thread.start()
    thread.join()
    assert passed


def test_a_signal_late_in_a_run_stops_the_next_one_of_a_sweep() -> None:
    with signals.listening():
        told()
    with pytest.raises(SystemExit) as stop, signals.listening():
        raise AssertionError("the next run started")
    assert stop.value.code == signals.STATUS
    assert not signals.received()


@pytest.mark.parametrize("name", [path.stem for path in Path(signals.__file__).parent.glob("[a-z]*.py")])
def test_system_imports_no_torch(name: str) -> None:
    code = f"import sys, forecast.system.{name}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
