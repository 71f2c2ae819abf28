"""One colour per attention type, the same in every figure and page."""

LIGHT = (
    "#0b6e99", "#c2410c", "#15803d", "#7c3aed", "#be185d", "#0f766e", "#8a6a00", "#475569", "#1d4ed8", "#9f1239",
)  # fmt: skip
"""Colours on a light background. Each has a contrast of at least 3."""

DARK = (
    "#56b4e9", "#fb923c", "#4ade80", "#b79cff", "#f472b6", "#2dd4bf", "#e3c14d", "#a3b1c6", "#93b4ff", "#fda4af",
)  # fmt: skip
"""The same colours on a dark background."""

ATTENTION_TYPES = (
    "full",
    "probsparse",
    "linear",
    "nystrom",
    "fastformer",
    "gated_delta",
    "uniform",
    "none",
)


def colour_number(attention: str, others: list[str] | None = None) -> int:
    """Return the index of an attention type's colour in `LIGHT` and `DARK`.

    Args:
        attention: its name.
        others: the names in the same figure. Types of a user's own module take the last colours in this order.
    """
    if attention in ATTENTION_TYPES:
        return ATTENTION_TYPES.index(attention)
    own = [name for name in dict.fromkeys(others or [attention]) if name not in ATTENTION_TYPES]
    spare = len(LIGHT) - len(ATTENTION_TYPES)
    return len(ATTENTION_TYPES) + own.index(attention) % spare


def attention_colour(attention: str, others: list[str] | None = None) -> str:
    """Return the colour of an attention type on a light background; see `colour_number`."""
    return LIGHT[colour_number(attention, others)]
