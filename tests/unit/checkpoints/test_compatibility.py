from pathlib import Path

import pytest

from forecast.checkpoints.compatibility import check_settings_equal
from forecast.system.errors import CheckpointError


def test_an_older_checkpoint_has_the_value_that_it_was_trained_with() -> None:
    content = {"hyper_parameters": {"model": {"d_model": 8}}, "optimizer_states": []}

    def check(**model: int) -> None:
        check_settings_equal(Path("last.ckpt"), content, {"model": {"d_model": 8, **model}})

    check()  # as of a model that has no such setting
    check(time_stride=1)
    with pytest.raises(CheckpointError, match=r"model\.time_stride=1, this run has model\.time_stride=6"):
        check(time_stride=6)
