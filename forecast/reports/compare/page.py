"""The comparison page: one HTML file with tables, charts and the chart library, which needs no network."""

import base64
import gzip
import html
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from plotly.offline import get_plotlyjs

from forecast.reports.compare import tables
from forecast.reports.compare.run_folders import ExcludedRun
from forecast.reports.compare.task import Entry, Task
from forecast.reports.figures import style_axis, subplots
from forecast.reports.plots import COLOURS, colour_number
from forecast.reports.templates import render
from forecast.system.formatting import plural
from forecast.system.progress import track

HERE = Path(__file__).parent


def render_page(title: str, tasks: Sequence[Task], excluded: Sequence[ExcludedRun]) -> str:
    sections = [make_section(task) for task in tasks]
    return render(
        HERE / "page.html",
        title=title,
        nonce=secrets.token_urlsafe(16),  # the browser runs only scripts with this nonce
        style=(HERE / "page.css").read_text(),
        plotly=base64.b64encode(gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)).decode(),
        loader=(HERE / "loader.js").read_text(),
        figures=[chart.figure() for section in sections for chart in section["charts"]],
        tasks=sections,
        overview=tables.make_overview_table(tasks),
        excluded=excluded,
        card=tables.make_card_table(tasks),
    )


def make_section(task: Task) -> dict[str, Any]:
    """Return the texts, tables and charts of one task."""
    starts = task.first_run.windows["forecast_start"]
    runs = [(entry.name, run.metrics["seed"], run.folder.name) for entry in task.variants for run in entry.runs]
    table = tables.make_task_table(task)
    costs = {"tokens", *(column.key for column in tables.COSTS)}
    variants = [row for row in table.rows if row[0] != "baseline"]
    cost = replace(table, title="Cost", rows=variants).only({"name", "seeds", *costs})
    settings = tables.make_settings_table(task) if len(task.variants) > 1 else None
    title = "Test scores, mean ± standard deviation over seeds"
    return {
        "title": task.title,
        "facts": f"{plural(len(starts), 'test window')}, forecast starts from {starts.min()} to {starts.max()}; "
        f"{plural(len(task.variants), 'variant')}, {plural(len(runs), 'run')}.",
        "results": table.sentences,
        "scores": replace(table.without(costs), title=title),
        "test": tables.describe_test(task),
        "charts": make_task_charts(task),
        "tables": [*filter(None, (cost, tables.make_interval_table(task), settings))],
        "shared": task.shared,
        "runs": runs,
    }


CHARTED_COSTS = [column for column in tables.COSTS if column.better == "lower"]
SHOWN_AT_FIRST = 8  # variants drawn when the page opens; the legend shows the others
MAX_LISTED = 40  # variants in the chart of differences
MAX_FORECAST_VARIABLES = 4
DIGITS = 4  # significant digits of a value
DASHES = ("solid", "dot", "longdash", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon")
MATPLOTLIB_STYLES = {  # Matplotlib's names of the dashes and symbols of Plotly
    "solid": "-", "dot": ":", "longdash": "--", "dashdot": "-.", "dash": "--",
    **dict(zip(SYMBOLS, "osD^Px*p", strict=True)),
}  # fmt: skip
GREY, BLACK = "#55606d", "#1b2530"

Trace = dict[str, Any]


class Chart(NamedTuple):
    heading: str
    caption: str
    choices: Mapping[str, Sequence[Trace]]  # by what a menu offers, which is also the title of `axis`
    axis: str  # that the choices name, `xaxis` or `yaxis`
    layout: dict[str, Any]  # Plotly's

    def figure(self) -> dict[str, Any]:
        data, buttons = [], []
        for number, (label, traces) in enumerate(self.choices.items()):
            data += [{"visible": True, **trace, "meta": number} for trace in traces]
            buttons.append({"label": escape(label, 60), "method": "update"})
        for number, button in enumerate(buttons):
            visible = [trace["visible"] if trace["meta"] == number else False for trace in data]
            button["args"] = [{"visible": visible}, {f"{self.axis}.title.text": button["label"]}]
        shown = buttons[0]["args"][0]["visible"]
        common = {"automargin": True, "gridcolor": "#e3e7ec", "zerolinecolor": "#e3e7ec"}
        axes = {name: {**common, **self.layout.get(name, {})} for name in ("xaxis", "yaxis")}
        axes[self.axis]["title"] = {"text": buttons[0]["label"]}
        menu = {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
        layout = {
            "height": 420, "margin": {"l": 48, "r": 16, "t": 48, "b": 40}, "font": {"color": BLACK, "size": 12},
            "showlegend": True, "legend": {"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom"},
            "updatemenus": [menu] if len(buttons) > 1 else [], **self.layout, **axes,
        }  # fmt: skip
        return {"data": [one | {"visible": at} for one, at in zip(data, shown, strict=True)], "layout": layout}


def escape(text: str, most: int = 40) -> str:
    """Return text for Plotly, which interprets some HTML tags: escaped, and shortened to this number of letters."""
    return html.escape(text if len(text) <= most else f"{text[: most - 1]}…")


def round_values(values: Any) -> list[float | None]:
    return [float(f"{v:.{DIGITS}g}") if math.isfinite(v) else None for v in np.asarray(values, dtype=float)]


@lru_cache(maxsize=1)
def style_variants(task: Task) -> dict[str, dict[str, str]]:
    """Return the colour of each variant, that of its attention type, and a dash and a symbol for those of one colour.

    If there is one attention type only, the colour is that of the rank.
    """
    types = [str(entry.runs[0].metrics["attention"]) for entry in task.variants]
    styles, drawn = {}, dict.fromkeys(range(len(COLOURS)), 0)
    for rank, (entry, attention) in enumerate(zip(task.variants, types, strict=True)):
        number = colour_number(attention, types) if len(set(types)) > 1 else rank % len(COLOURS)
        styles[entry.name] = {
            "color": COLOURS[number],
            "dash": DASHES[drawn[number] % len(DASHES)],
            "symbol": SYMBOLS[(number + drawn[number]) % len(SYMBOLS)],
        }
        drawn[number] += 1
    for number, entry in enumerate(task.baselines):
        symbol = f"{SYMBOLS[number % len(SYMBOLS)]}-open"
        styles[entry.name] = {"color": GREY, "dash": "dash", "symbol": symbol}
    return styles


def make_line(task: Task, entry: Entry, x: Any, y: Any, **more: Any) -> Trace:
    """Return the line of an entry; the first variants and the best baseline are shown at first."""
    style = style_variants(task)[entry.name]
    shown = [*task.variants[:SHOWN_AT_FIRST], task.best_baseline]
    return {
        "type": "scatter", "mode": "lines", "x": x, "y": y, "name": escape(entry.name), "legendgroup": entry.name,
        "line": {"color": style["color"], "dash": style["dash"], "width": 2},
        "marker": {"color": style["color"], "symbol": style["symbol"], "size": 10},
        "visible": True if entry in shown else "legendonly", **more,
    }  # fmt: skip


def make_task_charts(task: Task) -> list[Chart]:
    made = draw_differences, draw_costs, draw_scaling, draw_curves, draw_steps, draw_forecasts
    return [chart for draw in made if (chart := draw(task)) is not None]


def draw_differences(task: Task) -> Chart | None:
    """Draw relative differences of variants from the reference with their intervals; None if none is known."""
    known = {}
    for entry in task.variants[:MAX_LISTED]:
        if entry is not task.reference:
            numbers = (task.relative_difference(entry), *task.differences[entry.name].relative_interval())
            if not np.isnan(numbers).any():
                known[entry] = [100 * number for number in numbers]
    if not known:
        return None
    traces = []
    for row, (entry, (middle, low, high)) in enumerate(known.items()):
        bar = {"type": "data", "symmetric": False, "array": [high - middle], "arrayminus": [middle - low]}
        text = f"%{{x:.2f}}% [{low:.2f}, {high:.2f}]"
        style = {"mode": "markers", "visible": True, "error_x": bar, "hovertemplate": text}
        traces.append(make_line(task, entry, [middle], [row], **style))
    of_seeds = " and count windows and seeds" if task.knows_seeds else ", and hold for these runs alone"
    caption = (
        f"With 95% intervals that are corrected for the number of tests{of_seeds}. An interval that contains 0: no "
        "significant difference."
    )
    names = [escape(entry.name, 30) for entry in known]
    rows = {"tickvals": list(range(len(names))), "ticktext": names, "range": [len(names) - 0.4, -0.6]}
    layout = {
        "height": max(340, 110 + 26 * len(names)), "showlegend": False, "yaxis": {**rows, "zeroline": False},
        "xaxis": {"ticksuffix": "%", "rangemode": "tozero"},
    }  # fmt: skip
    title = f"difference of {task.score_label}"
    return Chart(f"Difference from {task.reference.name}", caption, {title: traces}, "xaxis", layout)


def draw_costs(task: Task) -> Chart | None:
    """Draw the error against each cost that is known, with the Pareto front where the cost can be compared."""
    choices: dict[str, list[Trace]] = {}
    for column in CHARTED_COSTS:
        costs, errors = [entry.mean(column.key) for entry in task.variants], [e.error for e in task.variants]
        if not all(map(math.isfinite, costs)):
            continue
        points = zip(task.variants, round_values(costs), round_values(errors), strict=True)
        drawn = [make_line(task, entry, [x], [y], mode="markers") for entry, x, y in points]
        front = find_pareto_front(costs, errors) if task.is_compared(column.key) else []
        line = {"shape": "hv", "color": GREY, "width": 2, "dash": "dot"}
        x, y = (round_values([values[i] for i in front]) for values in (costs, errors))
        drawn.append({"type": "scatter", "mode": "lines", "name": "Pareto front", "x": x, "y": y, "line": line})
        choices[column.heading] = drawn
    caption = (
        "Further down and to the left is better. Dotted: the variants that no other one beats in both error and cost. "
        "Times and memory can be compared only between runs that had the same machine to themselves."
    )
    layout = {"xaxis": {"type": "log"}, "yaxis": {"title": {"text": f"{task.score_label} (scaled)"}}}
    return Chart("Accuracy against cost", caption, choices, "xaxis", layout) if choices else None


def find_pareto_front(costs: Sequence[float], errors: Sequence[float]) -> list[int]:
    """Return the indices of the points that no other point dominates, one of equal ones, in ascending order of cost."""
    front: list[int] = []
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], errors[i])):
        if not front or errors[i] < errors[front[-1]]:
            front.append(i)
    return front


def draw_scaling(task: Task) -> Chart | None:
    """Draw costs and error against the tokens; None unless an attention type was run at several lengths."""
    headings = {
        **{column.key: column.heading for column in CHARTED_COSTS},
        task.best.score: f"{task.score_label} (scaled)",
    }
    choices: dict[str, list[Trace]] = {}
    for key, heading in headings.items():
        lines = measure_scaling(task, key)
        for name, values in lines.items():
            means, lows, highs = (np.array([of(v) for v in values.values()]) for of in (np.mean, min, max))
            spread = {"array": round_values(highs - means), "arrayminus": round_values(means - lows)}
            choices.setdefault(heading, []).append(
                {
                    "type": "scatter", "mode": "lines+markers", "name": escape(name), "x": list(values),
                    "y": round_values(means), "error_y": {"type": "data", "symmetric": False, **spread},
                    "line": {"color": COLOURS[colour_number(name, list(lines))]},
                }
            )  # fmt: skip
    caption = (
        "Tokens that the encoder attends to, one line per attention type; bars: lowest and highest value over seeds "
        "and other settings. Times and memory hold for the whole model."
    )
    axes = {"xaxis": {"type": "log", "title": {"text": "tokens"}}, "yaxis": {"type": "log"}}
    return Chart("Error and cost against the tokens", caption, choices, "yaxis", axes) if choices else None


def measure_scaling(task: Task, key: str) -> dict[str, dict[int, list[float]]]:
    """Return a score or cost by attention type and number of tokens, for the types that were run at several.

    Times that were measured while another compared run ran are left out.
    """
    found: dict[str, dict[int, list[float]]] = {}
    for entry in task.variants:
        metrics = entry.runs[0].metrics
        slots = metrics.get("attention_slots") or {}
        for run, value in zip(entry.runs, entry.values(key), strict=True):
            if "encoder" in slots and math.isfinite(value) and key not in run.disturbed:
                of_type = found.setdefault(str(metrics["attention"]), {})
                of_type.setdefault(int(slots["encoder"]["keys"]), []).append(value)
    return {name: dict(sorted(values.items())) for name, values in found.items() if len(values) > 1}


def draw_curves(task: Task) -> Chart:
    """Draw the validation MSE and the training loss of each run by epoch."""
    choices = {}
    for name, heading in (("val/mse", "validation MSE (scaled)"), ("train/loss", "training loss")):
        choices[heading] = [
            make_line(
                task, entry, [int(epoch) + 1 for epoch in run.curves["epoch"]], round_values(run.curves[name]),
                mode="lines+markers", showlegend=not number, marker={"size": 5},
                hovertemplate=f"epoch %{{x}}: %{{y}}, seed {escape(str(run.metrics['seed']))}",
            )
            for entry in task.variants
            for number, run in enumerate(entry.runs)
            if name in run.curves
        ]  # fmt: skip
    caption = "One line per run. The tested checkpoint is that of the best epoch on validation windows."
    return Chart("Training curves", caption, choices, "yaxis", {"xaxis": {"title": {"text": "epoch"}}})


def draw_steps(task: Task) -> Chart:
    steps = list(range(1, task.pred_len + 1))
    traces = [
        make_line(task, entry, steps, round_values(entry.average_over_seeds("steps")))
        for entry in (*task.variants, *task.baselines)
    ]
    caption = f"{task.score_label}, averaged over seeds. Dashed: baselines."
    axes = {"xaxis": {"title": {"text": "step of the horizon"}}, "yaxis": {"rangemode": "tozero"}}
    return Chart("Error by horizon step", caption, {f"{task.score_label} (scaled)": traces}, "yaxis", axes)


def draw_forecasts(task: Task) -> Chart:
    """Draw forecasts of the same test windows, by the first run of each entry."""
    saved: dict[Entry, Any] = {entry: entry.runs[0].forecasts for entry in (*task.variants, *task.baselines)}
    by_window: dict[Entry, dict[Any, Any]] = {
        entry: dict(iter(table.groupby(["window", "variable"], sort=False, observed=True)))
        for entry, table in saved.items()
    }
    # runs with a longer seq_len save more history
    longest = max(saved, key=lambda entry: len(saved[entry]))
    variables = list(dict.fromkeys(saved[longest]["variable"]))[-MAX_FORECAST_VARIABLES:]
    choices = {}
    for (window, variable), rows in by_window[longest].items():
        if variable not in variables:
            continue
        ahead, dates = rows["step"].to_numpy() > 0, rows["date"].astype(str).to_numpy()
        x, drawn = dates[ahead].tolist(), []
        for entry, parts in by_window.items():
            y = parts[(window, variable)][entry.column].to_numpy()[-len(x) :]
            drawn.append(make_line(task, entry, x, round_values(y)))
        truth = {
            "type": "scatter", "mode": "lines", "name": "true values", "line": {"color": BLACK, "width": 1.5},
            "x": dates.tolist(), "y": round_values(rows["truth"]),
        }  # fmt: skip
        choices[f"window {window}, from {dates[ahead][0]}: {variable}"] = [truth, *drawn]
    caption = "In original units; the forecast of each variant is that of its first seed."
    return Chart("Forecasts of the same test windows", caption, choices, "yaxis", {"xaxis": {"type": "date"}})


# ---- figures of papers


def write_figures(tasks: Sequence[Task], path: Path) -> None:
    """Write the charts of the page as a PDF file for papers, one page each, with the first choice of its menu."""
    with rc_context({"text.parse_math": False, "pdf.fonttype": 42}), PdfPages(path) as pages:
        for task in track(tasks, "figures"):
            for chart in make_task_charts(task):
                pages.savefig(draw_figure(chart, task.title))


def draw_figure(chart: Chart, title: str) -> Figure:
    """Draw with Matplotlib what a chart shows when the page opens."""
    layout = chart.figure()["layout"]
    figure, axis = subplots(figsize=(6.4, layout["height"] / 100), layout="constrained")
    style_axis(axis)
    for trace in next(iter(chart.choices.values())):
        if trace.get("visible", True) is True:
            draw_trace(axis, trace, layout["xaxis"].get("type") == "date")
    for side, settings in (("x", layout["xaxis"]), ("y", layout["yaxis"])):
        label = html.unescape(settings.get("title", {}).get("text", ""))
        axis.set(**{f"{side}label": label + settings.get("ticksuffix", "")})
        if settings.get("type") == "log":
            axis.set(**{f"{side}scale": "log"})
        if settings.get("rangemode") == "tozero":
            low, high = getattr(axis, f"get_{side}lim")()
            axis.set(**{f"{side}lim": (min(low, 0), max(high, 0))})
        if "tickvals" in settings:
            texts = [html.unescape(text) for text in settings["ticktext"]]
            axis.set(**{f"{side}ticks": settings["tickvals"], f"{side}ticklabels": texts})
            axis.set(**{f"{side}lim": settings["range"]})
    axis.set_title(f"{title}\n{chart.heading}", fontsize=9)
    if layout["showlegend"]:
        figure.legend(loc="outside lower center", fontsize=7, ncols=5, frameon=False)
    axis.tick_params(labelsize=8)
    return figure


def draw_trace(axis: Axes, trace: Trace, is_dated: bool) -> None:
    """Draw a trace of Plotly as a line or as markers, with error bars if it has any."""
    x, y = pd.to_datetime(trace["x"]) if is_dated else trace["x"], np.array(trace["y"], dtype=float)
    line, symbol = trace["line"], trace.get("marker", {}).get("symbol", "circle")
    bars: dict[str, Any] = {
        name: [trace[key]["arrayminus"], trace[key]["array"]]
        for name, key in (("xerr", "error_x"), ("yerr", "error_y"))
        if key in trace
    }
    axis.errorbar(
        x, y, **bars, color=line["color"], linewidth=1.2, markersize=5,
        linestyle=MATPLOTLIB_STYLES[line.get("dash", "solid")] if "lines" in trace["mode"] else "none",
        drawstyle="steps-post" if line.get("shape") == "hv" else "default",
        marker=MATPLOTLIB_STYLES[symbol.removesuffix("-open")] if "markers" in trace["mode"] else "",
        fillstyle="none" if symbol.endswith("-open") else "full",
        label=html.unescape(trace["name"]) if trace.get("showlegend", True) else None,
    )  # fmt: skip
