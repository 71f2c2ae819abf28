"""A forecasting task: the variants and baselines that forecast the same test windows, and the tests between them."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from forecast.evaluation.scores import SAME_ERROR
from forecast.evaluation.significance import LossDifference, SeedVariance, compare_to_reference, count_pairs
from forecast.reports.compare.entry import Entry
from forecast.reports.compare.run_folders import FinishedRun
from forecast.runs.summary import describe_linear_only


@dataclass(frozen=True, eq=False)
class Task:
    """Runs that forecast the same test windows of the same scaled values.

    title: data, horizon and features.
    variants, baselines: in ascending order of their error. Variants that make the same forecasts are one variant.
    settings: by variant, the settings in which the variants differ, by short name.
    shared: the settings that all runs have in common.
    reference_name: the variant or baseline that the others are compared with; None: the best variant.
    """

    title: str
    variants: list[Entry]
    baselines: list[Entry]
    settings: dict[str, dict[str, str]]
    shared: dict[str, str]
    reference_name: str | None = None

    @property
    def best(self) -> Entry:
        """The variant with the lowest error."""
        return self.variants[0]

    @property
    def best_baseline(self) -> Entry:
        """The baseline with the lowest error."""
        return self.baselines[0]

    @cached_property
    def reference(self) -> Entry:
        """The variant or baseline that the others are compared with."""
        named = [entry for entry in self.entries if entry.name == self.reference_name]
        return named[0] if named else self.best

    @property
    def score_label(self) -> str:
        """Name of the error that ranks and tests the entries: MSE, MAE or CRPS."""
        return self.best.score.upper()

    @cached_property
    def with_best_as_reference(self) -> "Task":
        """This task with all entries compared with the best variant."""
        return self if self.reference is self.best else replace(self, reference_name=None)

    @cached_property
    def with_baseline_as_reference(self) -> "Task":
        """This task with all entries compared with the best baseline."""
        return replace(self, reference_name=self.best_baseline.name)

    @property
    def entries(self) -> list[Entry]:
        """Variants and baselines in ascending order of their error."""
        return sorted([*self.variants, *self.baselines], key=lambda entry: entry.error)

    @property
    def unmerged_variants(self) -> list[Entry]:
        """The variants, with those that make the same forecasts one by one."""
        return [member for entry in self.variants for member in entry.equal or [entry]]

    @property
    def first_run(self) -> FinishedRun:
        return self.best.runs[0]

    @property
    def pred_len(self) -> int:
        return int(self.first_run.metrics["pred_len"])

    @property
    def overlap(self) -> int:
        """Number of neighbouring losses that share steps."""
        return self.first_run.overlap

    @cached_property
    def dates(self) -> np.ndarray:
        """Forecast start of each of the `tested_losses` (n,)."""
        return np.unique(self.first_run.windows["forecast_start"].to_numpy())

    @property
    def linear_only_note(self) -> str:
        """A sentence on runs that kept only their linear model, so that attention does not affect their scores."""
        return describe_linear_only(self.all_metrics)

    @property
    def is_linear_only(self) -> bool:
        """Whether every run kept only its linear model, so that variants cannot be compared."""
        return all(run.get("best_epoch") == 0 for run in self.all_metrics)

    @property
    def all_metrics(self) -> list[dict[str, Any]]:
        return [run.metrics for entry in self.unmerged_variants for run in entry.runs]

    def count_disturbed_runs(self, cost: str) -> int:
        """Return the number of runs whose cost was measured while another compared run ran."""
        return sum(cost in run.disturbed for entry in self.unmerged_variants for run in entry.runs)

    def skill(self, entry: Entry) -> list[float]:
        """Return 1 − error / the best baseline's error of each run: 0 up to `SAME_ERROR`, NaN if the latter is 0."""
        least = self.best_baseline.error
        skills = [1 - error / least if least > 0 else math.nan for error in entry.values(entry.score)]
        return [0.0 if abs(skill) < SAME_ERROR else skill for skill in skills]

    def equals_best_baseline(self, entry: Entry) -> bool:
        """Return whether the error equals the best baseline's up to `SAME_ERROR`: the model is that baseline."""
        return math.isclose(entry.error, self.best_baseline.error, rel_tol=SAME_ERROR)

    def beats_best_baseline(self, entry: Entry) -> bool:
        """Return whether the error is lower than the best baseline's by more than `SAME_ERROR`."""
        return entry.error < self.best_baseline.error and not self.equals_best_baseline(entry)

    @property
    def knows_seeds(self) -> bool:
        """Whether a variant has several seeds, which show how much its loss changes if it is trained again."""
        return any(len(entry.runs) > 1 for entry in self.variants)

    def is_tested(self, entry: Entry) -> bool:
        """Whether an entry is tested against the reference: a variant against a variant only with known variances."""
        if entry.is_baseline or self.reference.is_baseline:
            return True
        return self.seeds.is_known(self.seed_losses[entry.name], self.seed_losses[self.reference.name])

    @cached_property
    def seed_losses(self) -> dict[str, list[float]]:
        """By variant, the mean loss of each run."""
        return {entry.name: entry.values(entry.score) for entry in self.variants}

    @cached_property
    def seeds(self) -> SeedVariance:
        """The variance of the mean loss over seeds."""
        return SeedVariance.pool(self.seed_losses.values())

    def equals_reference(self, entry: Entry) -> bool:
        """Return whether the losses of all windows equal those of the reference up to round-off."""
        return entry.forecasts_the_same(self.reference)

    def relative_difference(self, entry: Entry) -> float:
        """Return the error minus the reference's, relative to the latter; NaN where the reference has no error."""
        least = self.reference.error
        return entry.error / least - 1 if least > 0 else math.nan

    def relative_interval(self, entry: Entry) -> tuple[float, float]:
        """Return the 95% interval of the relative difference; NaN where it is unknown."""
        return self.differences[entry.name].relative_interval()

    @property
    def comparisons(self) -> tuple[int, int]:
        """The tests among variants, and of variants and baselines, that p-values are corrected for."""
        variants, baselines = len(self.variants), len(self.baselines)
        if self.reference_name is None:  # the best variant is chosen on the test windows: all pairs count
            return count_pairs(variants), variants * baselines
        named = int(self.reference.is_baseline)
        return max(1, variants - 1 + named), max(1, baselines - named)

    @cached_property
    def differences(self) -> dict[str, LossDifference]:
        """By name, the test of each other variant and of each baseline against the reference.

        The variances hold windows and seeds. Where those over seeds are not known, see `is_tested`, variants are not
        tested against a variant, and tests between variants and baselines hold for these runs only.
        """
        tests, reference = {}, self.reference
        for entries, count in zip((self.variants, self.baselines), self.comparisons, strict=True):
            losses = {entry.name: entry.tested_losses for entry in [reference, *entries]}
            tests |= compare_to_reference(
                reference.name, losses, self.overlap, self.seed_losses, comparisons=count
            )
        for entry in self.variants:
            if entry.name in tests and not self.is_tested(entry):
                tests[entry.name] = LossDifference(tests[entry.name].mean, math.nan, 0.0)
        return tests
