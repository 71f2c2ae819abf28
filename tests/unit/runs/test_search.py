"""The search space, the draws and the bookkeeping of a hyperparameter search, with jobs that only compute a number."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from hydra.core.utils import JobReturn, JobStatus
from hydra.utils import instantiate
from omegaconf import OmegaConf
from optuna.trial import TrialState

from forecast.cli.compose import compose_command
from forecast.runs.search import RESULTS, read_search_space, remaining_trials
from forecast.runs.sweep import print_unfinished
from forecast.system.errors import ConfigError

pytestmark = pytest.mark.slow

Score = Callable[[dict[str, str]], Any]

SPACE = {"lr": "tag(log, interval(1e-4, 1e-2))", "width": "choice(16, 32)", "layers": "range(1, 4)"}


class Launcher:
    """Gives each job a number computed from its overrides; an exception is a job that failed before it began."""

    def __init__(self, score: Score) -> None:
        self.score, self.launched = score, []

    def launch(self, jobs: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        assert initial_job_idx == sum(map(len, self.launched))
        self.launched.append([dict(override.split("=", 1) for override in job) for job in jobs])
        results = []
        for job in self.launched[-1]:
            value = self.score(job)
            state = JobStatus.FAILED if isinstance(value, Exception) else JobStatus.COMPLETED
            results.append(JobReturn(status=state, _return_value=value))
        return results


def distance(job: dict[str, str]) -> float:
    return abs(math.log10(float(job["lr"])) + 3) + int(job["layers"])


def search(
    folder: Path, *typed: str, score: Score = distance, arguments: Sequence[str] = (), space: Any = None
) -> list[dict[str, str]]:
    """Run a search with its study in `folder`, and return the values of the jobs."""
    options = compose_command("train", ["search=informer", f"hydra.sweep.dir='{folder}'", *typed]).hydra.sweeper
    options.params = OmegaConf.create(SPACE if space is None else space)
    sweeper = instantiate(options)
    sweeper.folder, sweeper.loader, sweeper.launcher = folder, None, Launcher(score)  # type: ignore[assignment]
    sweeper.sweep(list(arguments))
    return [job for batch in sweeper.launcher.launched for job in batch]


def never(job: dict[str, str]) -> float:
    raise AssertionError(f"{job} was run")


def study_in(folder: Path) -> optuna.Study:
    return optuna.load_study(study_name="forecast", storage=f"sqlite:///{folder}/study.db")


def drawn(*arguments: str, trials: int = 40) -> list[Any]:
    draws, _ = read_search_space(arguments)
    (draw,) = draws.values()
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    return [draw(study.ask()) for _ in range(trials)]


@pytest.mark.parametrize(
    ("override", "values"),
    [
        ("a=choice(1,2.5,x)", {1, 2.5, "x"}), ("a=range(0.5,0.1,-0.2)", {0.5, 0.3}), ("a=x,'y z'", {"x", "'y z'"}),
        ("a=[1,2],[3]", {"[1,2]", "[3]"}), ("a=range(1,4)", {1, 2, 3}), ("a=range(5,0,-2)", {5, 3, 1}),
        ("a=int(interval(2,4))", {2, 3, 4}), ("a=tag(log,int(interval(1,2)))", {1, 2}), ("+a=1,2", {1, 2}),
    ],
)  # fmt: skip
def test_a_sweep_of_hydra_is_a_parameter(override: str, values: set[Any]) -> None:
    found = drawn(override)
    assert set(found) == values
    assert {type(value) for value in found} == {type(value) for value in values}


def test_of_several_overrides_of_a_key_the_last_one_counts() -> None:
    draws, shared = read_search_space(["a=interval(0,1)", "b=1,2", "c=3", "a=5", "+c='x, y'", "~d", "b=choice(3,4)"])
    assert list(draws) == ["b"]
    assert shared == ["a=5", "+c='x, y'", "~d"]
    assert set(drawn("b=1,2", "b=choice(3,4)")) == {3, 4}


def test_equal_seeds_draw_equal_trials(tmp_path: Path) -> None:
    chosen = ("hydra.sweeper.n_trials=13", "hydra.sweeper.storage=null")
    folders = [tmp_path / name for name in ("a", "b", "c", "d")]
    for folder in folders:
        folder.mkdir()
    first, again = (search(folder, *chosen) for folder in folders[:2])
    assert first == again
    assert len({job["lr"] for job in first}) == 13
    assert first != search(folders[2], *chosen, "hydra.sweeper.sampler.seed=2")
    assert first != search(folders[3], *chosen, "hydra.sweeper.sampler.seed=null")


def test_a_search_in_two_parts_draws_the_trials_of_one(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    wanted = search(whole, "hydra.sweeper.n_trials=14")
    first = search(parts, "hydra.sweeper.n_trials=12")
    assert first + search(parts, "hydra.sweeper.n_trials=2") == wanted


def test_of_equal_trials_the_first_one_is_the_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = iter([0.5, 0.25, 0.25, 0.3, 0.25])
    drawn_jobs = search(tmp_path, "hydra.sweeper.n_trials=5", score=lambda job: next(values))
    found = yaml.safe_load((tmp_path / RESULTS).read_text())
    assert {key: str(value) for key, value in found["best_params"].items()} == drawn_jobs[1]
    assert found["best_value"] == 0.25
    print_unfinished(tmp_path, [], 0, can_resume=False)
    said = capsys.readouterr().out
    assert said.startswith("best validation MSE 0.2500: lr=")


def test_overrides_of_the_command_replace_the_search_space(tmp_path: Path) -> None:
    found = search(tmp_path, "hydra.sweeper.n_trials=5", arguments=["lr=0.5", "layers=7,8", "seed=3"])
    assert {(job["lr"], job["seed"]) for job in found} == {("0.5", "3")}
    assert {job["layers"] for job in found} <= {"7", "8"}
    assert list(study_in(tmp_path).best_params) == ["width", "layers"]


@pytest.mark.parametrize("value", [None, math.nan, ValueError("before it began"), "text"])
def test_a_failed_trial_is_recorded_and_the_search_goes_on(value: Any, tmp_path: Path) -> None:
    numbers = iter([0.5, value, 0.25])
    search(tmp_path, "hydra.sweeper.n_trials=3", score=lambda job: next(numbers))
    trials = study_in(tmp_path).trials
    assert [trial.state for trial in trials] == [TrialState.COMPLETE, TrialState.FAIL, TrialState.COMPLETE]
    assert [trial.value for trial in trials] == [0.5, None, 0.25]
    assert yaml.safe_load((tmp_path / RESULTS).read_text())["best_value"] == 0.25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lr=tag(log,interval(0,1))"], "lr: the search cannot draw a value: .*low"),
        (["lr=interval(2,1)"], "lr: the search cannot draw a value: .*low"),
        (["layers=range(4,1)"], r"layers=range\(4,1\): this range has no values"),
    ],
)
def test_a_space_that_cannot_be_drawn_is_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        search(tmp_path, score=never, arguments=arguments)


@pytest.mark.parametrize(
    ("arguments", "space", "differs"),
    [
        (["data.path=a.csv", "width=8,16"], SPACE, "width"),
        (["data.path=a.csv", "seed=2"], SPACE | {"layers": "range(1, 5)"}, "layers, seed"),
    ],
)
def test_a_study_of_another_search(arguments: list[str], space: dict[str, str], differs: str, tmp_path: Path) -> None:
    search(tmp_path, "hydra.sweeper.n_trials=1", arguments=["data.path=a.csv"])
    message = f"study_name=forecast: the storage has .* for another search, which differs in {differs}: give"
    with pytest.raises(ConfigError, match=message):
        search(tmp_path, score=never, arguments=arguments, space=space)
    sweeper = compose_command("train", ["search=informer", f"hydra.sweep.dir='{tmp_path}'"]).hydra.sweeper
    sweeper.params = OmegaConf.create(space)
    with pytest.raises(ConfigError, match=message):
        remaining_trials(sweeper, [*arguments, "hydra.sweeper.n_trials=9"])


def test_commands_of_one_search_share_a_study(tmp_path: Path) -> None:
    search(tmp_path, "hydra.sweeper.n_trials=1", arguments=["data.path=a.csv", "layers=1,2"])
    again = ["layers=1,2", "output_root=elsewhere", "logger=[]", "data.path=a.csv"]
    search(tmp_path, "hydra.sweeper.n_trials=2", "hydra.sweeper.sampler.seed=2", arguments=again)
    assert len(study_in(tmp_path).trials) == 3
    named = ("hydra.sweeper.n_trials=1", "hydra.sweeper.study_name=other")
    search(tmp_path, *named, arguments=["data.path=b.csv"])
    assert len(study_in(tmp_path).trials) == 3


@pytest.mark.parametrize("override", ["loss=mse,quantile", "levels=[80],[90]"])
def test_scores_that_cannot_be_compared_are_refused(override: str) -> None:
    with pytest.raises(ConfigError, match="the scores of trials cannot be compared"):
        read_search_space([override])
    assert [*read_search_space(["loss=mse,mae"])[0]] == ["loss"]
