"""Settings of a model that its class does not have, or that it lacks."""

import pytest

from forecast.system.errors import ConfigError
from forecast.training.create_model import check_arguments
from tests.support.own_model import OneLayer


class Wider(OneLayer):
    def __init__(self, width: int, **settings: int) -> None:
        super().__init__(**settings)


class Strict(OneLayer):
    def __init__(
        self, *, n_features: int, n_targets: int, n_time_features: int, n_quantiles: int, width: int = 8
    ):
        super().__init__(
            n_features=n_features, n_targets=n_targets, n_quantiles=n_quantiles, seq_len=1, pred_len=1
        )


def test_a_setting_that_the_class_lacks_or_does_not_have_is_named() -> None:
    check_arguments(Wider, {"_target_": "Wider", "seq_len": 3, "width": 4})
    check_arguments(Strict, {"_target_": "Strict"})
    with pytest.raises(ConfigError, match=r"^model: Wider missing a required .*argument: 'width': set it"):
        check_arguments(Wider, {"_target_": "Wider", "seq_len": 3})
    with pytest.raises(ConfigError, match=r"^model: Strict got an unexpected keyword argument 'depth': "):
        check_arguments(Strict, {"_target_": "Strict", "width": 4, "depth": 2})
