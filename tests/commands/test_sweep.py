import json
import sqlite3
import statistics
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pandas as pd
import pytest
import yaml

from tests.support.commands import only, run_training, train, workplace


def results(sweep: Path) -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_text()) for path in sweep.glob("*/metrics.json")}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    """Two seeds and two horizons, one of which does not fit into the data."""
    folder = workplace(tmp_path_factory.mktemp("sweep"))
    result = train(folder, "-m", "pred_len=5,500", "seed=1,2", "trainer.max_epochs=1", "logger=[]")
    return only(folder, "runs/*"), result


def test_a_failed_job_does_not_stop_the_others(swept) -> None:
    """Each job has a line on the screen, and the rest in its log."""
    folder, result = swept
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    failed = [line for line in result.stdout.splitlines() if line.startswith("failed: ")]
    assert len(failed) == 2
    assert all("needs 500" in line or "needs 512" in line for line in failed)
    assert len(results(folder)) == 2
    lines = [line for line in result.stdout.splitlines() if line.startswith("[")]
    assert [line[:6] for line in lines] == [f"[{number}/4] " for number in range(1, 5)]
    for name, metrics in results(folder).items():
        typed = yaml.safe_load((folder / name / "overrides.yaml").read_text())
        own = " ".join(each for each in typed if each.split("=")[0] in ("pred_len", "seed"))
        (line,) = (line for line in lines if f"] {own} " in line)
        assert f"MSE {metrics['test']['mse']:.4f}   skill {metrics['skill']:+.3f} " in line
        assert f"saved in {folder / name}" in (folder / name / "train.log").read_text()
        assert f"run_group: {folder.name}\n" in (folder / name / "config.yaml").read_text()  # of W&B and MLflow
    assert "saved in " not in result.stdout


def variants(sweep: Path) -> pd.DataFrame:
    rows = pd.read_csv(sweep / "summary.csv")
    return rows[rows["kind"] == "variant"]  # type: ignore[reportReturnType]


def test_the_summary_has_one_row_a_configuration(swept) -> None:
    folder, result = swept
    (row,) = variants(folder).to_dict("records")
    assert row["seeds"] == 2
    scores = [metrics["test"]["mse"] for metrics in results(folder).values()]
    assert len(set(scores)) == 2
    assert row["mse"] == pytest.approx(statistics.mean(scores))
    assert row["mse_dev"] == pytest.approx(statistics.stdev(scores))
    assert f"{row['mse']:.3f} ± {row['mse_dev']:.3f}" in result.stdout
    place = folder.relative_to(folder.parent.parent)
    best = min(results(folder), key=lambda name: results(folder)[name]["validation_mse"])
    assert f"forecast compare {place}\n" in result.stdout
    assert f"forecast predict checkpoint={place}/{best}\n" in result.stdout


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    folder = workplace(tmp_path_factory.mktemp("search"))
    result = train(
        folder, "-m", "search=informer", "hydra.sweeper.n_trials=3", "hydra.sweeper.sampler.seed=1", "logger=[]",
        "trainer.max_epochs=1", "loss=quantile",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return only(folder, "runs/*"), result


def trials(sweep: Path) -> dict[int, float | None]:
    with sqlite3.connect(sweep / "study.db") as study:
        rows = study.execute("select number, value from trials left join trial_values using (trial_id)")
        return dict(rows.fetchall())


def test_optuna_minimises_the_score_that_selects_epochs(searched) -> None:
    folder, result = searched
    found = yaml.safe_load((folder / "optimization_results.yaml").read_text())
    values = [pd.read_csv(p)["val/quantile_loss"].min() for p in sorted(folder.glob("*/metrics.csv"))]
    assert list(trials(folder).values()) == pytest.approx(values, rel=1e-6)
    assert found["best_value"] == pytest.approx(min(values), rel=1e-6)
    assert f"best validation quantile loss {min(values):.4f}: " in result.stdout
    rates = variants(folder)["lr"].tolist()
    assert len(set(rates)) == 3
    assert all(1e-4 <= rate <= 1e-2 for rate in rates)


def test_a_search_goes_on_in_its_folder(searched) -> None:
    folder, _ = searched
    before, place = trials(folder), folder.parent.parent
    (place / "load.csv").rename(place / "elsewhere.csv")  # so that its trials fail
    overrides = ("-m", "search=informer", "hydra.sweeper.n_trials=2", "logger=[]", "trainer.max_epochs=1")
    overrides += ("loss=quantile",)
    assert run_training(place, *overrides, f"hydra.sweep.dir={folder}") == 2
    assert trials(folder) == {**before, 3: None, 4: None}
    assert len(list(folder.glob("*/config.yaml"))) == 5
