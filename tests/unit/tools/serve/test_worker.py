"""Errors in a worker process become an answer without a traceback, and a line in the log."""

import json
import logging
from pathlib import Path

import pytest

from forecast.system.errors import CheckpointError, NotInstalled
from forecast.tools.serve.worker import ServedModel, Unavailable

SECRET = CheckpointError("daily rows, and /secret/m/best.ckpt reads hours")
DAMAGED = Unavailable("m/best.ckpt is damaged")
MISSING = NotInstalled("data.holidays=DE", "holidays", "holidays")
INTERNAL = "internal error; the log of the server has the traceback"


@pytest.mark.parametrize(
    ("error", "status", "says", "logs"),
    [
        (SECRET, 422, "daily rows, and m/best.ckpt reads hours", []),
        (DAMAGED, 503, "m is unavailable: m/best.ckpt is damaged", []),
        (MISSING, 503, "m is unavailable: data.holidays=DE: holidays is not installed: ", []),
        (RuntimeError("at /secret/place"), 500, INTERNAL, ["a request to m failed"]),
    ],
)
def test_an_error_is_answered_by_its_kind(
    error: Exception, status: int, says: str, logs: list[str], monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    def fail(served: ServedModel) -> bytes:
        raise error

    monkeypatch.setattr(ServedModel, "describe", fail)
    with caplog.at_level(logging.ERROR):
        found, body, unavailable = ServedModel("m", Path("/secret/m"), use_graph=True).answer("describe")
    assert found == status
    assert json.loads(body)["error"].startswith(says)
    assert bool(unavailable) is (status == 503)
    assert [record.getMessage() for record in caplog.records] == logs
    assert all(record.exc_info and record.exc_info[1] is error for record in caplog.records)
