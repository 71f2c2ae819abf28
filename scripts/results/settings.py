"""The overrides of the tables of `scripts/reproduce`: data sets, variants, attention types. Standard library only."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ATTENTION_TYPES = ("full", "probsparse", "linear", "nystrom", "fastformer")
SEEDS = (1, 2, 3)
HORIZONS = (96, 192, 336, 720)

WITH_COVARIATES = {
    "epf-np": ("epf/NP.csv", "OT", "Grid load forecast,Wind power forecast"),
    "epf-pjm": ("epf/PJM.csv", "OT", "System load forecast,Zonal COMED load foecast"),
    "epf-be": ("epf/BE.csv", "OT", "Generation forecast,System load forecast"),
    "epf-fr": ("epf/FR.csv", "OT", "Generation forecast,System load forecast"),
    "epf-de": ("epf/DE.csv", "OT", "Wind power forecast,Ampirion zonal load forecast"),
    "gefcom": ("GEFCom2014-E.csv", "load", "T"),
}
"""File below --root, target and future covariates of the data sets that have day-ahead forecasts as covariates."""

SETTINGS: dict[str, tuple[str, ...]] = {
    **{
        name: (f"data={name}", "data.root=ROOT", "seq_len=720", "features=M")
        for name in ("etth1", "etth2", "ettm1", "ettm2", "electricity")
    },
    "etth1-joint": ("data=etth1", "data.root=ROOT", "features=M", "model.tokens=joint"),
    "weather": (
        "data=csv", "data.name=weather", "data.path=ROOT/weather.csv", "data.target=OT", "data.split=[0.7,0.1,0.2]",
        "data.freq=10min", "data.duplicates=first", "data.na_values=[-9999]", "seq_len=720", "features=M",
    ),
    "sample": ("data=sample", "seq_len=336", "features=M"),
    "load": ("data=load", "data.holidays=TR", "seq_len=504", "features=S"),
    "load-without-holidays": ("data=load", "seq_len=504", "features=S"),
    "recall": (
        "data=recall", "features=MS", "label_len=336", "model.linear=false", "model.normalize=false", "model.n_heads=2",
        "model.d_model=64", "model.d_calendar=16", "model.dropout=0", "data.eval_batch_size=32",
        "trainer.max_epochs=10", "model.time_stride=1",
    ),
    **{
        name: (
            "data=csv", f"data.name={name}", f"data.path=ROOT/{path}", f"data.target={target}", "features=S",
            f"data.columns=[{target}]", f"data.future_covariates=[{covariates}]", "data.split=[0.7,0.1,0.2]",
            "seq_len=168", "data.eval_stride=1", *(["data.date_column=[Date,Hour]"] if name == "gefcom" else []),
        )
        for name, (path, target, covariates) in WITH_COVARIATES.items()
    },
}  # fmt: skip
"""Overrides for each data set. ROOT stands for the folder of --root."""

WINDOWS = (("etth1", 96), ("etth2", 96), ("load", 168), ("etth1-joint", 96))  # data set, horizon
WINDOW_LENGTHS = (336, 720, 1440, 2880)
RECALL = {
    "seq_len=336": ("full",),
    "seq_len=672": ("full",),
    "seq_len=2688": (*ATTENTION_TYPES, "gated_delta"),
    "seq_len=2688 feature_map=taylor": ("linear",),
}
"""Input steps and other overrides, with the attention types that are run with them."""
ABLATION = (("sample", 168), ("load", 168), ("etth1", 96))
VARIANTS = (
    "everything",
    "model.linear=false",
    "model.future_calendar=false",
    "model.normalize=false",
    "label_len=0",
    "model.tokens=independent",
    "model.tokens=joint",
    "data.holidays=null",
    "model=informer seq_len=96",
)
"""Rows of the ablation: overrides, separated by spaces, that replace those of "everything"."""

WITHOUT = "data.future_covariates=[]"
FEWER = "windows_per_epoch=5214 data.batch_size=32"
PERCEPTRON = "model=mlp"
TRANSFORM = "data.transform=auto"
"""Variants of the data sets of `WITH_COVARIATES`."""

ALONE = "seq_len=336 model.tokens=independent"
AXES = "seq_len=336 model.tokens=axes"
FLAT_HEAD = {
    "seq_len=336": ("full",),
    ALONE: ("full",),
    f"model=mlp {ALONE} windows_per_epoch=8000": ("full",),
    f"model=patch_encoder {ALONE}": ("full", "linear"),
    f"model=patch_encoder {AXES}": ("full",),
}
"""Models of columns that are forecast from their own past, with the attention types that are run with them."""

SIZES = {
    "seq_len=336": ("ettm1", "weather"),
    "seq_len=336 size=base": ("ettm1", "weather"),
    "seq_len=480": ("ettm1",),
    "seq_len=480 size=base": ("ettm1",),
    "seq_len=720": ("ettm1", "weather"),
    "seq_len=720 size=base": ("ettm1", "weather"),
    "seq_len=720 model.tokens=axes": ("weather",),
    "seq_len=720 model.tokens=axes size=base": ("weather",),
    **{
        f"seq_len=336 {change}": ("ettm1", "weather")
        for change in (
            "model.tokens=axes", "model.tokens=axes model.encoder_layers=4", "model.patch_len=12",
            "model.encoder_layers=3", "optimizer.lr=5e-4", "data.batch_size=128", "trainer.max_epochs=10",
            "windows_per_epoch=10000",
        )
    },
}  # fmt: skip
"""Settings of an encoder with a flat head whose validation errors are compared, with the data sets."""
SUGGESTED_LENGTH = {"ettm1": "seq_len=480", "ettm2": "seq_len=480", "weather": "seq_len=720"}
"""The input length that `forecast.check` suggests for steps below an hour: five days, at most 720 steps."""
YARDSTICK = "model=mlp model.tokens=independent windows_per_epoch=8000"
"""A perceptron that reads the same windows."""

TIME_STRIDES = {f"model.time_stride={steps}": steps for steps in (1, 6, 24)}
STRIDE_TASKS = (
    *(("sample", 24), ("sample", 168), ("load", 24), ("load", 168), ("etth1", 96)),
    *((name, 24) for name in WITH_COVARIATES),
)
"""Strides of the time embedding of the past that are compared, and the data sets with their horizons."""

LOSSES = ("", "loss=mae", "loss=huber")
"""The losses of training that are compared; the default is MSE."""
AXIS_TYPES = ("full", "linear", "none")
"""The attention types of each axis of `model.tokens=axes` that are compared."""

PAPER_HORIZONS = (24, 48, 168, 336, 720)
