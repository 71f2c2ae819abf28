"""Train a peer on a task and write its test scores; `peer_scores.run` measures this process."""

import json
import sys
from pathlib import Path

from peer_scores.forecasters import FORECASTERS, list_settings
from peer_scores.rows import read_rows
from peer_scores.tasks import TASKS
from peer_scores.windows import Split


def main() -> None:
    root, name, peer, out = sys.argv[1:]
    task, forecaster = TASKS[name], FORECASTERS[peer]
    settings = list_settings(task, forecaster)
    rows = read_rows(task, Path(root))
    split = Split.of(task, len(rows.targets))
    if forecaster.library == "lightgbm":
        from peer_scores.lightgbm_forecasts import forecast

        forecasts, facts = forecast(rows, task, split, settings)
    else:
        from peer_scores.neuralforecast_forecasts import forecast as train_and_forecast

        forecasts, facts = train_and_forecast(rows, task, split, forecaster.model, settings)
    scores = split.score(forecasts, split.standardise(rows.targets))
    Path(out).write_text(json.dumps({**scores, "test_windows": forecasts.shape[1], **facts}))


if __name__ == "__main__":
    main()
