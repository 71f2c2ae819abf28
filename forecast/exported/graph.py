"""The whole forecast as one graph: values in data units in, values in data units out."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from forecast.conformal import Calibration
from forecast.data.scaler import Scaler
from forecast.data.series_scaler import of_one_table
from forecast.errors import ConfigError
from forecast.quantiles import arrange
from forecast.trained import TrainedModel

TRACED_BATCH = 3  # any size but 1, which a trace could take for a constant


class ForecastGraph(nn.Module):
    """Scale, forecast, give back in data units; what a user would otherwise write around the network.

    All inputs and outputs are float64: a column of level 10⁷ and deviation 1 has no digits left in float32. Scaling is
    in float64 too, as in training, and the network between runs in float32.

    The outputs are `forecast` and, where the model has them, `quantiles` in increasing order: those that it was trained
    for (the forecast is then their median), else the forecast and its conformal offsets.
    """

    center: Tensor
    scale: Tensor
    target_center: Tensor
    target_scale: Tensor

    def __init__(
        self,
        network: nn.Module,
        scaler: Scaler,
        target_scaler: Scaler,
        *,
        trained_for: tuple[float, ...] | None,
        calibration: Calibration | None,
    ) -> None:
        super().__init__()
        self.network = network
        self.n_targets = len(target_scaler.scale)
        self.trained_for, self.calibration = trained_for, calibration
        self.register_buffer("center", scaler.center)
        self.register_buffer("scale", scaler.scale)
        self.register_buffer("target_center", target_scaler.center)
        self.register_buffer("target_scale", target_scaler.scale)

    @classmethod
    def of(cls, trained: TrainedModel) -> "ForecastGraph":
        graph = cls(
            trained.network,
            of_one_table(trained.scaler),
            of_one_table(trained.target_scaler),
            trained_for=trained.quantiles,
            calibration=trained.calibration,
        )
        return graph.eval()

    def forward(
        self,
        past: Float64[Tensor, "batch seq_len n_features"],
        past_time: Float64[Tensor, "batch seq_len n_time_features"],
        future_time: Float64[Tensor, "batch pred_len n_time_features"],
    ) -> dict[str, Tensor]:
        """`forecast` (batch, pred_len, n_targets), `quantiles` (batch, pred_len, n_targets, n_quantiles)."""
        scaled = ((past - self.center) / self.scale).float()
        raw = self.network(scaled, past_time.float(), future_time.float())
        if self.trained_for is not None:
            quantiles = self._in_units(arrange(raw, self.n_targets).mT).mT
            return {"forecast": quantiles[..., len(self.trained_for) // 2], "quantiles": quantiles}
        outputs = {"forecast": self._in_units(raw)}
        if self.calibration is not None:
            outputs["quantiles"] = self._in_units(self.calibration.around(raw).mT).mT
        return outputs

    def _in_units(self, scaled: Float[Tensor, "*shape n_targets"]) -> Float64[Tensor, "*shape n_targets"]:
        return scaled.double() * self.target_scale + self.target_center


def trace(graph: ForecastGraph, shapes: Mapping[str, Sequence[int | str]]) -> ExportedProgram:
    """The forecast as a graph of any batch size, its weights inside. `shapes`: of the inputs, the batch first.

    Raises:
        ConfigError: random numbers would be drawn in it.
    """
    sizes = [(TRACED_BATCH, *map(int, shape[1:])) for shape in shapes.values()]
    inputs = tuple(torch.zeros(size, dtype=torch.float64) for size in sizes)
    batch = Dim("batch", min=1)
    with torch.no_grad():
        program = torch.export.export(graph, inputs, dynamic_shapes={name: {0: batch} for name in shapes})
    check_nothing_random(program)
    return program


def check_nothing_random(program: ExportedProgram) -> None:
    """Raises ConfigError naming the operations that PyTorch itself marks as drawing random numbers."""
    random = {
        str(node.target)
        for node in program.graph.nodes
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) and not is_still(node)
    }
    if random:
        raise ConfigError(f"the exported graph would draw random numbers: {', '.join(sorted(random))}")


def is_still(node: Any) -> bool:
    """Attention is marked as random for its dropout, of which it has none here."""
    attention = torch.ops.aten.scaled_dot_product_attention.default
    dropout = node.args[4] if len(node.args) > 4 else node.kwargs.get("dropout_p", 0.0)
    return node.target is attention and dropout == 0
