"""Settings that a command refuses before it reads data: the message is theirs, although the file does not exist."""

from pathlib import Path

import pytest

from tests.support.commands import TINY, answer

TRAINING = [
    "resume=yes", "levels=80", "levels=[100]", "loss=l3", "refit=half", "optimizer.fused=maybe", "logger.mode=never",
    "callbacks.checkpoint=null", "callbacks.epochs.path=elsewhere.csv", "callbacks.early_stopping.monitor=val/loss",
    "+trainer.max_steps=2", "trainer.max_epochs=0", "trainer.precision=bf16-true", "data.split=test",
    "data.split=[0.5,0.6]", "data.scaler=log", "data.holidays=XX", "data.freq=often", "data.fill=magic", "data.season=0",
    "data.lower=low",
]  # fmt: skip
"""Settings of which each is invalid, whatever the data."""

REFUSED = {
    "train": [
        *(([setting], setting.lstrip("+").split("=")[0].split(".")[-1]) for setting in TRAINING),
        (["refit=full", "schedule=plateau"], "schedule=plateau"),
        (["data.steps=rows", "data.calendar=weekly"], "data.calendar=weekly is no calendar"),
        (["trainer=ddp_cpu", "data.batch_size=31"], "data.batch_size=31 must divide by the number of processes, 2"),
    ],
    "backtest": [
        (["steps=0"], "steps=0"),
        (["steps=3"], "steps=3 is shorter than pred_len=5: give more steps"),
        (["stride=0"], "stride=0"),
        (["refit_every=0"], "refit_every=0"),
        (["refit_every=9", "retrain=often"], "retrain=[often] must be one or more of never, fine_tune, scratch"),
        (["retrain=[never,scratch]"], "retrain=[never,scratch] needs refit_every=, the number of rows between two trainings"),
        (["intervals=quantile"], "intervals=quantile is not one of conformal, adaptive"),
        (["callbacks.checkpoint=null"], "callbacks.checkpoint=null"),
        (["loss=l3"], "loss=l3"),
        (["checkpoint=RUN", "model=informer"], "model=informer: with checkpoint=, a backtest takes its settings from the checkpoint: leave this one out"),
    ],
    "predict": [
        (["baseline=best"], "baseline=best is not one of naive, seasonal_naive, linear; null: the model"),
        (["intervals=none"], "intervals=none"),
        (["baseline=naive", "intervals=quantile"], "intervals=quantile are the model's, not those of baseline=naive: use conformal or adaptive"),
        (["levels=[0]"], "levels=[0]"),
        (["horizon=0"], "horizon=0"),
        (["start=soon"], "start=soon"),
        (["start=01/02/2024"], "start=01/02/2024 is not a date"),
        (["output=a.txt"], "output=a.txt: give a name that ends in .csv, or -"),
    ],
    "evaluate": [(["split=all"], "split=all is not one of train, val, test"), (["output=a.txt"], "output=a.txt")],
    "explain": [
        (["split=all"], "split=all is not one of train, val, test"),
        (["slot=middle"], "slot=middle is not one of all, encoder, decoder, cross, variables"),
        (["repeats=1"], "repeats=1 must be at least 2: their standard deviation is shown"),
        (["importance_windows=1"], "importance_windows=1: at least 2 windows are needed, or 0 to leave out importance"),
    ],
    "export": [(["tolerance=0"], "tolerance=0"), (["output=a.txt"], "output=a.txt: give a name that ends in .onnx")],
    "monitor": [(["output=a.txt"], "output=a.txt: give a name that ends in .json")],
    "convert": [(["data.stamp=middle"], "stamp=middle"), (["data.duplicates=maybe"], "duplicates=maybe")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "arguments", "says"),
    [
        pytest.param(command, arguments, says, id=f"{command} {' '.join(arguments)}")
        for command, cases in REFUSED.items()
        for arguments, says in cases
    ],
)
def test_settings_are_refused_before_the_data(
    command: str, arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    given = {
        "train": [*TINY, "data=csv", "logger=[]"],
        "backtest": [] if "checkpoint=RUN" in arguments else [*TINY, "data=csv"],
        "convert": [],
    }.get(command, ["checkpoint=no_run"])
    arguments = [argument.replace("RUN", "no_run") for argument in arguments]
    if "logger.mode=never" in arguments:
        given.remove("logger=[]")
    (tmp_path / "no_run").touch()  # a checkpoint that cannot be read
    assert answer(monkeypatch, command, tmp_path, *given, "data.path=no.csv", *arguments) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert says in error
    assert "no.csv" not in error
    assert "no_run" not in error
