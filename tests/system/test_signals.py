"""A signal stops a run with status 75 wherever it arrives, and never as a user's mistake."""

import os
import signal

import pytest

from forecast.system import signals


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


def test_a_signal_late_in_a_run_stops_the_next_one_of_a_sweep() -> None:
    with signals.listening():
        told()
    with pytest.raises(SystemExit) as stop, signals.listening():
        raise AssertionError("the next run started")
    assert stop.value.code == signals.STATUS
    assert not signals.received()
