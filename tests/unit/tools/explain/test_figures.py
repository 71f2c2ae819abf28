"""What goes into a picture: ticks, bars, labels."""

from forecast.tools.explain.figures import MAX_BARS, draw_importance
from forecast.tools.explain.importance import Importance, InputGroup, InputKind


def importance(kind: InputKind, name: str, mse: float, lags: tuple[int, int] | None = None) -> Importance:
    return Importance(InputGroup(kind, name, (0,), lags), mse, 0.1)


def test_the_most_important_inputs_are_drawn_with_their_lags() -> None:
    found = [
        importance(InputKind.LEVEL, "y", 3.0),
        *(importance(InputKind.CALENDAR, f"part {i}", 0.01 * i) for i in range(MAX_BARS + 5)),
        importance(InputKind.LAGS, "y", 0.4, (1, 24)),
        importance(InputKind.LAGS, "y", -0.6, (25, 48)),
    ]
    (axis,) = draw_importance(found, "title").figure.axes
    labels = [label.get_text() for label in axis.get_yticklabels()]
    assert labels[:3] == ["y, level", "y, lags 1–24", f"part {MAX_BARS + 4}, calendar"]
    assert len(labels) == len(axis.patches) == MAX_BARS
    assert axis.patches[1].get_width() == 0.4  # type: ignore[attr-defined]
