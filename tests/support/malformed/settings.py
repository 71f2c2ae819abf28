from tests.support.malformed.case import Case
from tests.support.malformed.files import GOOD, TRAIN


def settings(*overrides: str, says: str) -> Case:
    return Case(" ".join(overrides), says, GOOD, overrides, program=TRAIN)


REFUSED = [
    settings("seq_len=1000000000000", says="table.csv: the train split needs 1,000,000,000,005 rows (seq_len=1000000000000, pred_len=5), and there are 84: give more rows, shorter windows or another data.split"),
    settings("label_len=13", says="label_len=13 must lie between 0 and seq_len=12: set label_len=6"),
    settings("features=S", says="features=S needs data.target, one of: load, price"),
    settings("resume=always", says="resume=always is unknown; use resume=auto, or checkpoint=FILE"),
    settings("factor=0", says="factor=0 must be a whole number of at least 1"),
    settings("match=parameters", "model=informer", "model.share_layers=true", says="match=parameters needs model.share_layers=false: it counts the attention of each layer"),
    settings("attention=linear", "feature_map=cosine", says="linear feature_map must be one of elu, relu, taylor, favor, not 'cosine'"),
    settings("model=informer", "+model.patch_len=4", "+model.normalize=true", says="model: Informer got an unexpected keyword argument 'patch_len': set it, or leave out what sets it (model=, an experiment)"),
    *(
        settings("variables=linear", *others, says="variables=linear: no layer of this model reads over variables: set model=patch_encoder model.tokens=axes and at least model.encoder_layers=2, or leave variables= out")
        for others in (["model=informer"], ["model=residual_informer"], ["model=patch_encoder"], ["model=patch_encoder", "model.tokens=axes", "model.encoder_layers=1"])
    ),
    settings("model.d_model=9", says="d_model 9 is not divisible by n_heads 2 into whole heads"),
    settings("model.d_model=1000000000", says="model.d_model=1000000000, model.d_ff=8, model.encoder_layers=2 need at least 89,406,967,937.9 GiB of memory, and … GiB are free: choose smaller values"),
    settings("model.dropout=2", says="dropout=2 must be at least 0 and below 1"),
    settings("model.attention=5", says="model.attention=5: it is a group of settings; set one of them: model.attention.name, model.attention.types.encoder, model.attention.types.decoder"),
    settings("schedule=plateau", "schedule.factor=-0.5", says="schedule.factor=-0.5: a number from 0 to 1 is needed"),
    settings("schedule=plateau", "+schedule.monitor=val/loss", says="schedule.monitor=val/loss is not one of val/mse, val/mae"),
    settings("trainer.devices=0", says="trainer.devices=0: a number of processes or GPUs is needed, or a list of GPUs, or -1 for all"),
    settings("data.season=1000000", says="table.csv: data.season is 1000000 rows, and there are 84 training rows: give more rows, or set a shorter data.season (1: none)"),
    settings("data.target=\x1b[31m", says="{path}: no column '\\x1b[31m'; there are 'load', 'price' (data.target)"),
    settings("data.columns=load", says="data.columns=load: write a list, as in data.columns=[load]"),
    settings("data.split=[0.5,0.6]", says="data.split=[0.5, 0.6] is not a split: give months of 30 days [12,4,4], fractions of the rows that add up to 1 [0.7,0.1,0.2], or the first dates of validation and test [2017-07-01,2017-11-01]"),
    settings("data.split=[0.99,0.005,0.005]", says="table.csv: the val split needs 5 rows (seq_len=12, pred_len=5), and there are 2: give more rows, shorter windows or another data.split"),
    settings("data.split=[2030-01-01,2031-01-01]", says="data.split=['2030-01-01', '2031-01-01'] must rise and lie after the first date of the table and not after the last one, 2024-03-28 00:00:00 and 2024-04-01 23:00:00"),
    settings("data.transform={wind:log1p}", says="data.transform names wind, which is no column here: there are load, price"),
    settings("data.as_of=[price]", says="data.as_of=['price']: write pairs of columns, as in data.as_of={temperature:temperature_forecast}"),
    settings("data.as_of={load: price}", says="data.as_of names load: add it to data.future_covariates"),
    settings("data.known_steps=3", says="data.known_steps=3 limits data.future_covariates, and there are none"),
    settings("data.known_steps=1.5", says="data.known_steps=1.5 must be a whole number of steps, at least 1; a covariate whose future is not known is one of data.past_covariates"),
    settings("data.freq=-1h", says="data.freq: '-1h' is not a step between rows: write one as h, 15min, D, W-SUN or MS"),
    settings("data.separator='\"'", says="data.separator='\"' is no character that can separate: give another"),
    settings("data.decimal=,", "data.thousands=,", says="data.decimal and data.thousands are both ',': they must differ, as in data.decimal=. data.thousands=,"),
    settings("data.date_format=ISO", says="data.date_format='ISO': write one as strptime's, such as '%d/%m/%Y', or unix, unix_ms, unix_us, unix_ns, excel"),
    settings("data.date_column=when", says="{path}: no column 'when' in line 1 ('date', 'load', 'price'): set data.date_column to the name of the dates; rows without dates need data.start and data.freq"),
    settings("output_root=", says="output_root=: a name is needed"),
    settings("run_name=../../elsewhere", says="run_name=../../elsewhere is not a valid folder name; give another"),
    settings("data.name='a\nb'", says="run_name=probsparse-a b-5-s1 is not a valid folder name; give another"),
    settings("data.start=", "data.freq=", "data.drop=[date]", says="data.start=: no value: give one, or leave data.start= out"),
    settings("data.drop=[date]", says="column 'date' is named twice (data.date_column and data.drop): leave it out of data.drop"),
    settings("data.start=0001-01-01", "data.freq=D", "data.drop=[date]", "data.date_column=none", says="data.start=0001-01-01: 1 is not a year from 1678 to 2261: give another date"),
    settings("\x1b[31m=1", says="\\x1b[31m=1: cannot be read; write key=value; text that holds commas, brackets or spaces as \"key='the text'\""),
]  # fmt: skip
