"""A layer's implied map beside softmax of the same queries and keys, head by head."""

import numpy as np
import torch
from torch import Tensor

from forecast.explanation import maps
from forecast.explanation.drawing import Column, shrink
from forecast.explanation.implied import implied_map
from forecast.explanation.layer import Layer
from forecast.explanation.measures import Number, mean, negative_part, relative_error, row_bits, share_within


class Study:
    """Both maps of every head, one head at a time; kept are the answers, numbers and small pictures.

    Raises ConfigError for a kind without a map, or a map too large to form.
    """

    def __init__(self, layer: Layer) -> None:
        layer.check_size()
        self.layer = layer
        causal, recent = layer.call.causal, layer.recent_positions()
        size = (len(layer.asks), len(layer.reads))
        even = maps.even_map(*size, causal)
        counts = maps.seen(*size, causal).sum(-1, keepdim=True)
        self.images: dict[str, list[np.ndarray]] = {"found": [], "exact": [], "difference": []}
        self.answers: list[Tensor] = []
        self.values: dict[str, list[float]] = {}
        for number, (_, q, k, v, _) in enumerate(layer.each_head()):
            found = implied_map(layer.call.attention, q, k)[0, 0]
            exact = maps.softmax_map(q, k, causal=causal)[0, 0]
            self.answers.append(found[None, None] @ v)
            self._note(
                bits=row_bits(found.clamp(min=0)),
                exact_bits=row_bits(exact),
                error=relative_error(found, exact),
                even_error=relative_error(even, exact),
                answer=relative_error(found @ v[0, 0], exact @ v[0, 0]),
                negative=negative_part(found),
            )
            if recent is not None:
                chosen = torch.from_numpy(recent)
                self._note(recent=share_within(found, chosen), even_recent=share_within(even, chosen))
            if number < len(layer.pictured):
                for name, weights in {"found": found, "exact": exact, "difference": found - exact}.items():
                    self.images[name].append(shrink((weights * counts).numpy(), causal=causal))

    def _note(self, **values: float) -> None:
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)

    def found(self, title: str) -> Column:
        return Column(title, self.images["found"])

    def exact(self, title: str) -> Column:
        return Column(title, self.images["exact"])

    def difference(self, title: str) -> Column:
        return Column(title, self.images["difference"], is_difference=True)

    def mean(self, name: str) -> float:
        return mean(self.values[name])

    def bits(self, *, softmax: bool = False) -> Number:
        even = maps.even_map(len(self.layer.asks), len(self.layer.reads), self.layer.call.causal)
        beside = {"softmax": self.mean("exact_bits")} if softmax else {}
        return Number("entropy of a row", self.mean("bits"), "bits", {**beside, "even": row_bits(even)})

    def error(self) -> Number:
        beside = {"an even map's": self.mean("even_error"), "worst head": max(self.values["error"])}
        return Number("relative error of the map (Frobenius)", self.mean("error"), "%", beside)

    def negative(self) -> Number:
        return Number("negative part of the weights", self.mean("negative"), "%")

    def answer(self) -> Number:
        return Number("answer's distance from softmax's", self.mean("answer"), "%")

    def recent(self) -> list[Number]:
        if "recent" not in self.values:
            return []
        what = f"attention on {self.layer.recent_steps}"
        return [Number(what, self.mean("recent"), "%", {"even": self.mean("even_recent")})]
