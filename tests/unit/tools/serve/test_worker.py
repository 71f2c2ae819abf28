"""Errors in a worker process become an answer without a traceback, and a line in the log."""

import json
import logging

import pytest

from forecast.system.errors import CheckpointError, DataError
from forecast.tools.serve import worker


@pytest.mark.parametrize(
    ("error", "status", "says", "logs"),
    [
        (DataError("rows: no column 'load'"), 422, "rows: no column 'load'", ""),
        (
            CheckpointError("/secret/best.ckpt is damaged"),
            500,
            "the model cannot be loaded; the log of the server has the reason",
            "m cannot be loaded",
        ),
        (
            RuntimeError("at /secret/place"),
            500,
            "internal error; the log of the server has the traceback",
            "a request to m failed",
        ),
    ],
)
def test_an_error_is_answered_by_its_kind(
    error: Exception,
    status: int,
    says: str,
    logs: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(served: object) -> bytes:
        raise error

    monkeypatch.setitem(worker._models, "m", object())
    with caplog.at_level(logging.ERROR):
        found, body = worker.answer_with("m", fail)
    assert (found, json.loads(body)) == (status, {"error": says})
    assert [record.getMessage() for record in caplog.records] == ([logs] if logs else [])
    assert all(record.exc_info and record.exc_info[1] is error for record in caplog.records)
