"""Statistics of the implied attention map of a layer, and of softmax of the same queries and keys, head by head."""

import numpy as np
import torch
from torch import Tensor

from forecast.tools.explain import maps
from forecast.tools.explain.downsampling import shrink_map
from forecast.tools.explain.figures import MapColumn
from forecast.tools.explain.implied_map import head_map
from forecast.tools.explain.layer import Layer
from forecast.tools.explain.measures import (
    Number,
    mean,
    negative_part,
    relative_error,
    row_entropy,
    weight_within,
)


class MapStatistics:
    """Outputs, numbers and small images of the implied and the softmax map of each head.

    Maps are formed one head at a time. Weights in images are relative to uniform attention.

    Raises:
        NoMapError: the layer does not mix values with weights.
        ConfigError: the map is too large.
    """

    def __init__(self, layer: Layer) -> None:
        layer.check_size()
        self.layer = layer
        causal, recent = layer.call.causal, layer.recent_positions()
        size = (len(layer.queries), len(layer.keys))
        uniform = maps.uniform_map(*size, causal)
        counts = maps.visible_keys(*size, causal).sum(-1, keepdim=True)
        self.images: dict[str, list[np.ndarray]] = {"implied": [], "softmax": [], "difference": []}
        self.outputs: list[Tensor] = []
        self.values: dict[str, list[float]] = {}
        for number, (head, q, k, v, _) in enumerate(layer.each_head()):
            implied = head_map(layer.call.attention, head, q, k)[0, 0]
            softmax = maps.softmax_map(q, k, causal=causal)[0, 0]
            self.outputs.append(implied[None, None] @ v)
            self._add_values(
                entropy=row_entropy(implied.clamp(min=0)),
                softmax_entropy=row_entropy(softmax),
                error=relative_error(implied, softmax),
                uniform_error=relative_error(uniform, softmax),
                output_error=relative_error(implied @ v[0, 0], softmax @ v[0, 0]),
                negative=negative_part(implied),
            )
            if recent is not None:
                chosen = torch.from_numpy(recent)
                self._add_values(
                    recent=weight_within(implied, chosen), uniform_recent=weight_within(uniform, chosen)
                )
            if number < len(layer.pictured):
                drawn = {"implied": implied, "softmax": softmax, "difference": implied - softmax}
                for name, weights in drawn.items():
                    self.images[name].append(shrink_map((weights * counts).numpy(), causal=causal))

    def _add_values(self, **values: float) -> None:
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)

    def implied_column(self, title: str) -> MapColumn:
        return MapColumn(title, self.images["implied"])

    def softmax_column(self) -> MapColumn:
        return MapColumn("softmax", self.images["softmax"])

    def difference_column(self) -> MapColumn:
        return MapColumn("difference", self.images["difference"], is_difference=True)

    def mean(self, name: str) -> float:
        """The mean of a value over the heads."""
        return mean(self.values[name])

    def entropy(self, *, softmax: bool = False) -> Number:
        layer = self.layer
        uniform = maps.uniform_map(len(layer.queries), len(layer.keys), layer.call.causal)
        beside = {"softmax": self.mean("softmax_entropy")} if softmax else {}
        beside["uniform"] = row_entropy(uniform)
        return Number("entropy of a row", self.mean("entropy"), "bits", beside)

    def map_error(self) -> Number:
        beside = {"uniform": self.mean("uniform_error"), "worst head": max(self.values["error"])}
        return Number("relative error of the map (Frobenius)", self.mean("error"), "%", beside)

    def negative_part(self) -> Number:
        return Number("negative part of the weights", self.mean("negative"), "%")

    def output_error(self) -> Number:
        return Number("relative difference of the output from softmax", self.mean("output_error"), "%")

    def recent_weight(self) -> list[Number]:
        """The weight on the last season of the past; empty if it holds all keys or none."""
        if "recent" not in self.values:
            return []
        what = f"attention on {self.layer.recent_steps}"
        return [Number(what, self.mean("recent"), "%", {"uniform": self.mean("uniform_recent")})]
