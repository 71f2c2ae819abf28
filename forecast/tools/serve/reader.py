"""The reading of requests for one model, from settings that JSON can hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forecast.data.categories import encode_categories
from forecast.data.files.cells import FRAME
from forecast.data.panel import Panel
from forecast.data.utc_offset import utc_offset_of
from forecast.system.errors import DataError
from forecast.tools.serve.request import ForecastRequest, to_columns
from forecast.tools.serve.source import RequestSource


@dataclass(frozen=True)
class RequestReader:
    """Reads the rows of requests as `forecast predict` reads a file.

    Attributes:
        source: the columns that are read, with the options of the training data.
        state: the UTC offset of training (see `utc_offset_of`) and the `categories`.
    """

    source: RequestSource
    state: Mapping[str, Any]

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> "RequestReader":
        """The reader with the options of a source, the columns that may be absent, and the state of training."""
        source = RequestSource(**settings["options"]).with_optional(frozenset(settings["unread"]))
        return cls(source, settings["data_state"])

    def read(self, request: ForecastRequest, max_rows: int) -> Panel:
        """The rows of a request as a panel. Raises DataError, with the name of the field, if they cannot be read."""
        roles = self.source.roles
        # several id columns may be given joined
        read = roles.all if roles.id is None else (*roles.all, roles.id)
        rows = to_columns("rows", request.rows, read, max_rows)
        future = None
        if request.future is not None:
            future = to_columns("future", request.future, read, max_rows)
        for field, columns in {"rows": rows, "future": future or rows}.items():
            if roles.date not in columns:
                raise DataError(
                    f"{field}: no {roles.date!r}, which holds the dates; there are {list(columns)[:20]}"
                )
        try:
            panel = self.source.of(rows, future).read().at_utc_offset(utc_offset_of(self.state))
            return encode_categories(str(FRAME), panel, self.state["categories"])
        except DataError as error:
            raise DataError(str(error).replace(str(FRAME), "rows")) from None
