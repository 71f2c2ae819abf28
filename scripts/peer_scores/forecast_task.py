"""Train a peer on a task and write its test scores; `peer_scores.run` measures this process."""

import json
import sys
from pathlib import Path

from peer_scores.forecasters import FORECASTERS
from peer_scores.tasks import HORIZON, SEQ_LEN, read_rows
from peer_scores.windows import Split


def main() -> None:
    root, task, name, out = sys.argv[1:]
    forecaster = FORECASTERS[name]
    rows = read_rows(task, Path(root))
    split = Split(len(rows.target), SEQ_LEN, HORIZON)
    if forecaster.library == "lightgbm":
        from peer_scores.lightgbm_forecasts import forecast

        forecasts, facts = forecast(rows, split, forecaster.settings)
    else:
        from peer_scores.neuralforecast_forecasts import forecast as train_and_forecast

        forecasts, facts = train_and_forecast(rows, split, forecaster.model, forecaster.settings)
    scores = split.score(forecasts, rows.target)
    Path(out).write_text(json.dumps({**scores, "test_windows": len(forecasts), **facts}))


if __name__ == "__main__":
    main()
