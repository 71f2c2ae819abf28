"""Filters for messages of Lightning that do not concern users of this package."""

import logging
import warnings

IGNORED = (
    ".*LeafSpec.*",  # Lightning's use of torch
    ".*smaller than the logging interval.*",  # curves are logged by epoch
    ".*dirpath has changed.*",  # a run that continues from another run's checkpoint writes its own
    ".*Grad strides do not match.*",  # a copy of one small gradient per step
    ".*FSDP2-wrapped module.*",  # nothing is written into a forecast, which is a view
    ".*sync_dist=True.*",  # scores are summed over the processes before they are logged
)


def filter_messages() -> None:
    """Show only Lightning's warnings, except those in `IGNORED`."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for message in IGNORED:
        warnings.filterwarnings("ignore", message=message)
