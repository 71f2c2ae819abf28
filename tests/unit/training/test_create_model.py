"""Settings of a model that its class does not have, or that it lacks."""

import pytest

from forecast.system.errors import ConfigError
from forecast.training.create_model import check_settings
from tests.support.own_model import OneLayer


class Wider(OneLayer):
    def __init__(self, width: int, **settings: int) -> None:
        super().__init__(**settings)


class Passing(OneLayer):
    def __init__(self, *layers: int, **settings: int) -> None:
        super().__init__(*layers, **settings)


class Strict(OneLayer):
    def __init__(
        self, *, n_features: int, n_targets: int, n_time_features: int, n_quantiles: int, width: int = 8
    ):
        super().__init__(
            n_features=n_features, n_targets=n_targets, n_quantiles=n_quantiles, seq_len=1, pred_len=1
        )


def test_a_setting_without_a_default_is_named() -> None:
    check_settings(Wider, {"_target_": "Wider", "seq_len": 3, "width": 4})
    check_settings(Passing, {"_target_": "Passing", "seq_len": 3})
    with pytest.raises(ConfigError, match=r"^model\.width: Wider has no default for this option"):
        check_settings(Wider, {"_target_": "Wider", "seq_len": 3})


def test_a_setting_that_the_class_does_not_have_is_named() -> None:
    check_settings(Strict, {"_target_": "Strict"})
    with pytest.raises(ConfigError, match=r"^model\.depth: Strict has no such option"):
        check_settings(Strict, {"_target_": "Strict", "width": 4, "depth": 2})
