"""The attention layers of a model: type, role and number of tokens of each slot."""

from dataclasses import dataclass

from forecast.attention import Attention
from forecast.models import ForecastModel
from forecast.system.formatting import format_tokens


@dataclass(frozen=True)
class SlotSummary:
    """The first attention layer of a slot (encoder, decoder, cross or variables).

    type: name of the class without `Attention`.
    role: self, causal or cross.
    queries, keys: numbers of tokens.
    equals_softmax: why the layer computes exact softmax attention at these lengths; empty where it does not.
    """

    type: str
    role: str
    queries: int
    keys: int
    equals_softmax: str

    def __str__(self) -> str:
        return f"{self.type} ({self.role}, {format_tokens(self.role, self.queries, self.keys)} tokens)"


def summarize_attention(model: ForecastModel) -> dict[str, SlotSummary]:
    """Summarise the attention of each slot; empty for a model without attention layers."""
    found: dict[str, SlotSummary] = {}
    for layer in model.attention_layers():
        module = model.get_submodule(layer.name)
        if layer.slot not in found and isinstance(module, Attention):
            queries, keys = len(layer.query_steps), len(layer.memory_steps)
            reason = module.why_equal_to_softmax(queries, keys) or ""
            found[layer.slot] = SlotSummary(module.type_name(), str(module.role), queries, keys, reason)
    return found


def describe_equal_to_softmax(slots: dict[str, SlotSummary]) -> str:
    """One sentence on the slots whose attention equals softmax at these lengths; empty where there is none."""
    reasons = [
        f"{slot}: {one.type} {one.equals_softmax}" for slot, one in slots.items() if one.equals_softmax
    ]
    return (
        f"these layers compute exact softmax attention, as attention=full does ({', '.join(reasons)})"
        if reasons
        else ""
    )
