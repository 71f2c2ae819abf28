"""A model that ONNX Runtime runs: it answers the usual requests without torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forecast.evaluation.levels import Level, bounds, parse_levels
from forecast.evaluation.scores import ReportedScores
from forecast.inference.forecast import Forecast, ForecasterFacts, dates_from
from forecast.tools.serve.export_files import graph_file
from forecast.tools.serve.graph_inputs import GraphInputs, NeedsTorch
from forecast.tools.serve.reader import RequestReader
from forecast.tools.serve.request import ForecastRequest


@dataclass(frozen=True)
class ExportedModel:
    """An exported model with what its answers need.

    Attributes:
        session: of ONNX Runtime.
        reader: of the rows of requests.
        inputs: from rows to the inputs of the session.
        facts: on the model, for the notes of an answer.
        targets: names of the forecast columns.
        levels: levels of the intervals of the run, in percent.
        quantiles: probabilities of the quantiles of the session; None for those that are not served.
        method: of the intervals, `conformal` or `quantile`.
        description, example: JSON of the answers to other requests.
    """

    session: Any
    reader: RequestReader
    inputs: GraphInputs
    facts: ForecasterFacts
    targets: list[str]
    levels: list[Level]
    quantiles: list[float | None]
    method: str
    description: Mapping[str, Any]
    example: Mapping[str, Any]

    @classmethod
    def load(cls, checkpoint: Path, facts: Mapping[str, Any]) -> "ExportedModel":
        """Load the graph beside a checkpoint, whose facts are `about`."""
        import onnxruntime  # an optional package

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # errors
        session = onnxruntime.InferenceSession(
            graph_file(checkpoint).read_bytes(), options, providers=["CPUExecutionProvider"]
        )
        forecaster = facts["forecaster"]
        test = forecaster["test"] and ReportedScores(**forecaster["test"])
        keys = ("targets", "levels", "quantiles", "method", "description", "example")
        return cls(
            session=session,
            reader=RequestReader.of_settings(facts["reading"]),
            inputs=GraphInputs.of_facts(facts),
            facts=ForecasterFacts(**forecaster | {"test": test}),
            **{key: facts[key] for key in keys},
        )

    def forecast(self, request: ForecastRequest, max_rows: int) -> Forecast:
        """Forecast the series in the rows of a request.

        Raises:
            NeedsTorch: the graph does not forecast this: see `GraphInputs.make`, and for a baseline, a start, a horizon
                beyond pred_len, adaptive intervals, or a level that the run did not have.
            ConfigError, DataError: the request is wrong.
        """
        if request.baseline is not None:  # which may read fewer columns
            raise NeedsTorch(f"baseline={request.baseline} is given")
        panel = self.reader.read(request, max_rows)
        levels = parse_levels(self.levels if request.levels is None else request.levels)
        self._check_options(request, levels)
        panel = panel.with_dates_after_ends(self.facts.pred_len)
        horizon = request.horizon or self.facts.pred_len
        inputs = self.inputs.make(panel, horizon)
        values = dict(
            zip((o.name for o in self.session.get_outputs()), self.session.run(None, inputs), strict=True)
        )
        if not all(np.isfinite(each).all() for each in values.values()):
            raise NeedsTorch("a forecast is not a finite number")
        point = values["forecast"][:, :horizon]
        low, high = (
            {
                level: values["quantiles"][:, :horizon, :, self.quantiles.index(bounds(level)[side])]
                for level in levels
            }
            for side in (0, 1)
        )
        return Forecast(
            forecaster=self.facts,
            panel=panel,
            columns=self.targets,
            dates=dates_from(panel, panel.ends, horizon),
            values=point,
            low=low,
            high=high,
            truth=np.full(point.shape, np.nan),
            method=self.method,
            new=0,
            known=[],
        )

    def _check_options(self, request: ForecastRequest, levels: Sequence[Level]) -> None:
        """Raise NeedsTorch for a start, a horizon, intervals or levels that the graph does not forecast."""
        if request.start is not None:
            raise NeedsTorch("start is given")
        if request.horizon is not None and request.horizon > self.facts.pred_len:
            raise NeedsTorch(f"horizon={request.horizon} is beyond pred_len={self.facts.pred_len}")
        if request.intervals not in ("auto", self.method):
            raise NeedsTorch(f"intervals={request.intervals} is not {self.method}, the method of this model")
        if others := [level for level in levels if not set(bounds(level)) <= set(self.quantiles)]:
            raise NeedsTorch(f"levels={others} are not calibrated for this model")
