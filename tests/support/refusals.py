"""Rows of the tables of refusals (test_refusals.py of each area): a call, and the message that it causes."""

import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest


class Refusal(NamedTuple):
    """A call that raises an exception, or that warns."""

    what: str  # description of the case, which is the id of its test
    says: str  # end of the message, which may follow a path, with `…` for text that varies
    kind: type[Exception]  # the exception, or the category of the warning
    call: Callable[[Any], object]  # is given an empty folder, or a trained model

    def check(self, given: object) -> str:
        """Make the call and return its message; fail unless the message is one line with the expected text."""
        messages = self._messages(given)
        said = [message for message in messages if is_said(self.says, message)]
        assert said, f"{self.says!r} ends none of {messages}"
        assert len(said[0].splitlines()) == 1
        return said[0]

    def _messages(self, given: object) -> list[str]:
        if issubclass(self.kind, Warning):
            with pytest.warns(self.kind) as told:
                self.call(given)
            return [str(warning.message) for warning in told]
        with warnings.catch_warnings(action="ignore", category=UserWarning), pytest.raises(self.kind) as refused:
            self.call(given)
        return [str(refused.value)]


def is_said(text: str, message: str) -> bool:
    """Return whether a message ends with a text, with `…` for text that varies."""
    return re.search(".*".join(map(re.escape, text.split("…"))) + r"\Z", message) is not None


def describe_options(options: Mapping[str, object]) -> str:
    return " ".join(f"{key}={value}" for key, value in options.items())
