"""The folder of a user's own options, named by the environment variable FORECAST_CONF, on Hydra's search path.

The module stands outside of forecast/ because Hydra takes plugins only from the namespace package `hydra_plugins`.
"""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from forecast.system.conf_folders import conf_folders


class ForecastSearchPath(SearchPathPlugin):
    """Append the folder of the user to the search path, after that of this package, whose files take precedence."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in conf_folders()[1:]:
            search_path.append(provider="FORECAST_CONF", path=f"file://{folder}")
