"""What Lightning says that a user of ours need not read."""

import logging
import warnings

KNOWN = (
    ".*LeafSpec.*",  # its use of torch
    ".*smaller than the logging interval.*",  # curves are logged by epoch
    ".*dirpath has changed.*",  # a run that goes on from another's checkpoint keeps its own
    ".*Grad strides do not match.*",  # a copy of one small gradient a step
    ".*FSDP2-wrapped module.*",  # nothing is written into a forecast, which is a view
    ".*sync_dist=True.*",  # scores have been summed over the processes before they are logged
)


def lightning() -> None:
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for known in KNOWN:
        warnings.filterwarnings("ignore", message=known)
