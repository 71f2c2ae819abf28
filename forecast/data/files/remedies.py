"""Advice on a file that is refused: settings with which it is read, each of which is tried before it is printed."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from forecast.system.errors import DataError, ForecastError, Remedy
from forecast.system.formatting import write_setting

MAX_TRIALS = 32
"""Largest number of times that a file is read to find the settings."""

MAX_TEXT = 1 << 23
"""Bytes of a text that are read to find the settings. The whole text is read once more with the settings found."""

CHOOSING = frozenset({"data", "id_column", "columns", "drop", "header", "names", "start", "melt", "target"})
"""Settings that choose columns or their meaning, which a trained model does not take."""

_REPEATED = frozenset({"drop", "na_values", "skip_rows", "separator"})
"""Settings that a later remedy may change."""

Settings = Mapping[str, Any]
Read = Callable[[Settings], int]
"""Reads the file with more settings, returns how many rows are missing, and raises ForecastError if it cannot."""


def advise(
    error: DataError, given: Settings, read: Read, confirm: Read, keys: Collection[str] | None = None
) -> None:
    """Add to an error the settings that read the file, or the error that comes next with the likeliest ones.

    Of the settings that read the file, those are named with which the fewest rows are missing.

    Args:
        error: an error with remedies, whose message changes.
        given: the settings that gave the error.
        read: reads the file, or its beginning.
        confirm: reads the whole file.
        keys: the settings that the command takes; None: all.
    """
    trials = _Trials(given, read, keys)
    found = trials.find(error, {})
    fewest = min((missing for missing, _ in found), default=0)
    best = [remedy for missing, remedy in found if missing == fewest]
    best = [one for one in best if not any(_is_part(other.settings, one.settings) for other in best)]
    if confirm is not read:
        best = trials.confirm(best, confirm)
    settings = best[0].settings if best else trials.first
    if settings is None:
        return
    advice = f"{error.fallback}; with {write_settings(settings)}, the next error is: {trials.next_error}"
    if best:
        notes = [one.note if one.note != following.note else "" for one, following in pairwise(best)]
        named = [
            write_settings(one.settings) + note
            for one, note in zip(best, [*notes, best[-1].note], strict=True)
        ]
        advice = f"{error.joint}set {' or '.join(named)}"
    error.replace_advice(advice, is_for_training=not CHOOSING.isdisjoint(settings))


def _is_part(some: Settings, settings: Settings) -> bool:
    return len(some) < len(settings) and all(settings.get(key) == value for key, value in some.items())


def write_settings(settings: Settings) -> str:
    """Write settings as they are typed in a shell."""
    written = [
        write_setting(key if key == "data" else f"data.{key}", value) for key, value in settings.items()
    ]
    return " ".join(written)


class _Trials:
    """The search for settings: every remedy of an error is tried, then those of the error that comes next.

    Attributes:
        first: the first settings that led to an error of another kind; None: there are none, or there is other advice.
        next_error: the message with these settings.
    """

    def __init__(self, given: Settings, read: Read, keys: Collection[str] | None) -> None:
        self.given, self.read, self.keys = given, read, None if keys is None else {*keys}
        self.tried: list[Settings] = [{}]
        self.first: Settings | None = None
        self.next_error = ""

    def find(self, error: DataError, settings: Settings) -> list[tuple[int, Remedy]]:
        """The remedies that read the file, each with the number of missing rows; `settings` gave the error."""
        found = []
        for remedy in error.remedies:
            chosen = {**settings, **remedy.settings}
            if "data" not in chosen:  # which has defaults of its own
                chosen = {key: value for key, value in chosen.items() if value != self.given.get(key)}
            changed = settings.keys() & remedy.settings.keys() - _REPEATED
            is_possible = not changed and (self.keys is None or self.keys >= {*chosen})
            if chosen in self.tried or not is_possible or len(self.tried) > MAX_TRIALS:
                continue
            self.tried.append(chosen)
            try:
                found.append((self.read(chosen), Remedy(chosen, remedy.note)))
            except DataError as refused:
                again = any(not remedy.settings.keys().isdisjoint(each.settings) for each in refused.remedies)
                if self.first is None and not again and error.joint == ": ":
                    self.first, self.next_error = chosen, str(refused)
                below = self.find(refused, chosen)
                found += [(rows, Remedy(deeper, remedy.note + note)) for rows, (deeper, note) in below]
            except ForecastError:
                continue
        return found

    def confirm(self, remedies: Sequence[Remedy], read: Read) -> list[Remedy]:
        """Those of the remedies with which `read` reads; the first error becomes the next one if there are none."""
        confirmed = []
        for remedy in remedies:
            try:
                read(remedy.settings)
                confirmed.append(remedy)
            except ForecastError as refused:
                if remedy is remedies[0]:
                    self.first, self.next_error = remedy.settings, str(refused)
        return confirmed
