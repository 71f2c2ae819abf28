// Charts of the comparison page, drawn with Plotly from the embedded data. page.js follows in the same script.
"use strict";

const tasks = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const SHOWN_AT_FIRST = 8; // variants drawn when the page opens
const MAX_LISTED = 40; // variants in the chart of errors
let printing = false;

// ---- colours, lines and markers

const { light: LIGHT, dark: DARK } = JSON.parse(document.getElementById("colours").textContent);
const DASHES = ["solid", "dot", "longdash", "dashdot"];
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon"];
const GLYPHS = ["●", "■", "◆", "▲", "✚", "✖", "★", "⬟"]; // SYMBOLS as characters, for legends

const isDark = () => !printing && (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);

function palette() {
  return isDark()
    ? { colours: DARK, text: "#e4e9ee", soft: "#a4afbb", grid: "#2d3742", background: "#14191f" }
    : { colours: LIGHT, text: "#1b2530", soft: "#55606d", grid: "#e3e7ec", background: "#ffffff" };
}

// Plotly interprets some HTML tags in texts, so names are escaped.
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const shortened = (text, most) => escaped(text.length > most ? text.slice(0, most - 1) + "…" : text);
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const deviation = (values) => {
  const middle = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
};

const factor = JSON.parse(document.getElementById("factor-data").textContent);
const groups = factor ? { ...tasks, factor } : { ...tasks }; // what a figure's data-task names

for (const task of Object.values(groups)) {
  const drawn = new Map(); // number of entries of each colour so far: they differ in dash and symbol
  task.entries.forEach((entry, i) => {
    const same = drawn.get(entry.colour) ?? 0;
    drawn.set(entry.colour, same + 1);
    const symbol = entry.baseline ? same : (entry.colour + same) % SYMBOLS.length;
    entry.task = task;
    entry.number = i;
    entry.glyph = entry.baseline ? "┅" : GLYPHS[symbol];
    entry.style = (colours) => ({
      colour: entry.baseline ? palette().soft : colours[entry.colour],
      dash: entry.baseline ? "dash" : DASHES[same % DASHES.length],
      symbol: SYMBOLS[symbol],
    });
  });
  task.bestBaseline = task.entries.find((entry) => entry.baseline);
  task.shown = new Set(task.entries.filter((e) => e === task.bestBaseline || (!e.baseline && e.number < SHOWN_AT_FIRST)));
}

// ---- charts: each function returns the traces and its part of the layout

const shownOf = (task) => task.entries.filter((entry) => task.shown.has(entry));

function line(entry, x, y, more = {}) {
  const style = entry.style(palette().colours);
  return {
    type: "scatter", mode: "lines", x, y, name: shortened(entry.name, 40),
    line: { color: style.colour, dash: style.dash, width: 2 }, hoverlabel: { namelength: -1 }, ...more,
  };
}

// The range of an axis with room for labels; Plotly's own range around a single value is far too wide.
function paddedRange(values, padding) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = padding * (high - low || Math.abs(low) || 1);
  return values.length === 0 ? {} : { range: [low - room, high + room] };
}

// Whole labels at 1, 2 and 5; Plotly's own labels between powers of ten have one digit.
function logarithmicTicks(values) {
  const decades = Array.from({ length: 25 }, (_, i) => 10 ** (i - 12));
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const ticks = decades.flatMap((decade) => [1, 2, 5].map((digit) => digit * decade)).filter((tick) => tick >= low && tick <= high);
  return ticks.length < 2 ? { nticks: 6 } : { tickvals: ticks, ticktext: ticks.map((tick) => Number(tick.toPrecision(1)).toLocaleString("en")) };
}

// One row per entry: a number and its interval, entry[key] = [number, low, high].
function intervals(task, key, width, { unit, include, title, shapes }) {
  const known = task.entries.filter((entry) => task.shown.has(entry) && entry[key]);
  const variants = known.filter((entry) => !entry.baseline); // a baseline may be so far off that variants look equal
  const listed = (variants.length > 0 ? variants : known).slice(0, MAX_LISTED);
  const { colours } = palette();
  const points = listed.map((entry, i) => {
    const [middle, low, high] = entry[key];
    const { colour, symbol } = entry.style(colours);
    return {
      type: "scatter", mode: "markers", x: [middle], y: [listed.length - 1 - i], name: shortened(entry.name, 60),
      hoverlabel: { namelength: -1 }, hovertemplate: `%{x:.2f}${unit} [${low}, ${high}]`,
      error_x: { type: "data", symmetric: false, array: [high - middle], arrayminus: [middle - low], thickness: 2, color: colour },
      marker: { symbol, size: 11, color: colour },
    };
  });
  return [points, {
    height: Math.max(340, 90 + 28 * listed.length), shapes,
    xaxis: { title: { text: title }, ticksuffix: unit, ...paddedRange([...include, ...listed.flatMap((entry) => entry[key])], 0.05) },
    yaxis: {
      tickvals: listed.map((_, i) => listed.length - 1 - i), ticktext: listed.map((e) => shortened(e.name, width < 450 ? 18 : 30)),
      zeroline: false, range: [-0.7, listed.length - 0.3],
    },
  }];
}

const charts = {
  differences(task, choice, width) {
    const zero = { type: "line", x0: 0, x1: 0, y0: 0, y1: 1, yref: "paper", line: { color: palette().text, width: 1 } };
    return intervals(task, "difference", width, { unit: " %", include: [0], title: `difference of ${task.score}`, shapes: [zero] });
  },

  ranks(task, choice, width) {
    return intervals(task, "rank", width, { unit: "", include: [1], title: "average rank", shapes: [] });
  },

  errors(task, choice, width) {
    const listed = task.entries.filter((entry) => !entry.baseline).slice(0, MAX_LISTED);
    const y = (entry) => listed.length - 1 - entry.number;
    const { colours } = palette();
    const ends = [-0.7, listed.length - 0.3];
    const drawn = [...listed, ...(task.shown.has(task.bestBaseline) ? [task.bestBaseline] : [])].flatMap((e) => e.errors);
    const [low, high] = [Math.min(...drawn), Math.max(...drawn)];
    const room = 0.06 * (high - low || low);
    const bestBaseline = task.shown.has(task.bestBaseline) ? [line(task.bestBaseline, [task.bestBaseline.errors[0], task.bestBaseline.errors[0]], ends)] : [];
    const seeds = {
      type: "scatter", mode: "markers", hovertemplate: "%{x}<extra>%{text}</extra>",
      x: listed.flatMap((e) => e.errors), y: listed.flatMap((e) => e.errors.map(() => y(e))),
      text: listed.flatMap((e) => e.seeds.map((seed) => `seed ${escaped(String(seed))}`)),
      marker: { symbol: "circle-open", size: 8, color: listed.flatMap((e) => e.errors.map(() => e.style(colours).colour)) },
    };
    const means = listed.map((entry) => ({
      type: "scatter", mode: "markers", x: [mean(entry.errors)], y: [y(entry)],
      name: shortened(entry.name, 60), hoverlabel: { namelength: -1 },
      error_x: { type: "data", array: [entry.errors.length > 1 ? deviation(entry.errors) : 0], thickness: 1.5, color: entry.style(colours).colour },
      marker: { symbol: entry.style(colours).symbol, size: 11, color: entry.style(colours).colour },
    }));
    return [[...bestBaseline, seeds, ...means], {
      height: Math.max(340, 90 + 24 * listed.length),
      xaxis: { title: { text: `${task.score} (scaled)` }, range: [low - room, high + room] },
      yaxis: {
        tickvals: listed.map(y), ticktext: listed.map((e) => shortened(e.name, width < 450 ? 18 : 30)),
        zeroline: false, range: ends,
      },
    }];
  },

  cost(task, choice, width) {
    const cost = task.costs[Number(choice.cost)];
    const { colours, soft } = palette();
    const variants = shownOf(task).filter((entry) => !entry.baseline);
    const at = (entry) => [cost.values[entry.number], mean(entry.errors)];
    const shown = variants.map((entry) => at(entry)[0]);
    const middle = Math.sqrt(Math.min(...shown) * Math.max(...shown)); // of a logarithmic axis
    const fits = variants.length <= 4 && variants.every((entry) => entry.name.length <= width / 24); // else the legend only
    const points = variants.map((entry) => ({
      type: "scatter", mode: fits ? "markers+text" : "markers", x: [at(entry)[0]], y: [at(entry)[1]],
      name: shortened(entry.name, 40), text: [entry.name], textposition: at(entry)[0] > middle ? "top left" : "top right",
      textfont: { size: 11 }, hoverlabel: { namelength: -1 }, hovertemplate: `%{x}, ${task.score} %{y}`, cliponaxis: false,
      marker: { size: 12, color: entry.style(colours).colour, symbol: entry.style(colours).symbol },
    }));
    const front = cost.front.map((number) => at(task.entries[number]));
    const frontLine = {
      type: "scatter", mode: "lines", name: "Pareto front", x: front.map((p) => p[0]), y: front.map((p) => p[1]),
      line: { shape: "hv", color: soft, width: 2, dash: "dot" }, hoverinfo: "skip",
    };
    return [[frontLine, ...points], {
      xaxis: { title: { text: `${escaped(cost.heading)} (logarithmic)` }, type: "log", ...paddedRange(variants.map((entry) => Math.log10(at(entry)[0])), 0.2), nticks: 5, tickangle: 0, minor: { ticks: "outside" } },
      yaxis: { title: { text: `${task.score} (scaled)` }, ...paddedRange(variants.map((entry) => mean(entry.errors)), 0.15) },
    }];
  },

  // Both axes are logarithmic; the dotted lines start at the first point of the first line.
  scaling(task, choice) {
    const { heading, is_cost: isCost, lines } = task.scaling[Number(choice.measure)];
    const { colours, soft } = palette();
    const first = lines.find((one) => one.name === "full") ?? lines[0];
    const longest = Math.max(...lines.flatMap((one) => one.tokens));
    const ends = [first.tokens[0], longest];
    const slopes = [1, 2].map((power) => ({
      type: "scatter", mode: "lines+text", x: ends, y: ends.map((n) => first.mean[0] * (n / ends[0]) ** power), hoverinfo: "skip",
      text: ["", power === 1 ? "n" : "n²"], textposition: "middle left", textfont: { color: soft }, line: { color: soft, width: 1, dash: "dot" },
    }));
    const traces = lines.flatMap((one) => [
      { type: "scatter", mode: "lines", x: [...one.tokens, ...one.tokens.toReversed()], y: [...one.high, ...one.low.toReversed()],
        fill: "toself", fillcolor: colours[one.colour] + "26", line: { width: 0 }, hoverinfo: "skip" },
      { type: "scatter", mode: "lines+markers", x: one.tokens, y: one.mean, name: shortened(one.name, 40), hovertemplate: "%{x} tokens: %{y}",
        line: { color: colours[one.colour], width: 2 }, marker: { size: 8, symbol: SYMBOLS[one.colour % SYMBOLS.length] } },
    ]);
    const ticks = [...new Set(lines.flatMap((one) => one.tokens))];
    const drawn = [...slopes.flatMap((one) => one.y), ...lines.flatMap((one) => [...one.low, ...one.high])];
    const scale = isCost ? { type: "log", ...logarithmicTicks(drawn) } : { nticks: 6 };
    return [[...(isCost ? slopes : []), ...traces], {
      xaxis: { title: { text: "tokens" }, type: "log", tickvals: ticks },
      yaxis: { title: { text: escaped(heading) }, ...scale },
    }];
  },

  cumulative(task) {
    const traces = shownOf(task).filter((entry) => entry.cumulative && !entry.baseline)
      .map((entry) => line(entry, task.dates, entry.cumulative, { hovertemplate: "%{x}: %{y:.2f} %" }));
    return [traces, { xaxis: { type: "date" }, yaxis: { title: { text: `difference of ${task.score}` }, ticksuffix: " %" } }];
  },

  curves(task, choice) {
    const score = Number(choice.score) === 0 ? "val/mse" : "train/loss";
    const traces = shownOf(task).flatMap((entry) =>
      entry.curves.map((curve, i) => line(entry, curve.epoch, curve[score] ?? [], {
        mode: curve.epoch.length < 30 ? "lines+markers" : "lines", marker: { size: 5, symbol: entry.style(palette().colours).symbol },
        showlegend: i === 0, text: curve.epoch.map(() => escaped(String(entry.seeds[i]))), hovertemplate: "epoch %{x}: %{y}, seed %{text}",
        line: { ...line(entry).line, width: 1.5 },
      })));
    const longest = Math.max(...traces.map((trace) => trace.x[trace.x.length - 1]), 1);
    return [traces, {
      xaxis: { title: { text: "epoch" }, ...(longest <= 10 ? { dtick: 1 } : {}) },
      yaxis: { title: { text: score === "val/mse" ? "validation MSE (scaled)" : "training loss" } },
    }];
  },

  steps(task) {
    const traces = shownOf(task).map((entry) => line(entry, task.steps, entry.steps, { hovertemplate: "step %{x}: %{y}" }));
    return [traces, { xaxis: { title: { text: "step of the horizon" } }, yaxis: { title: { text: `${task.score} (scaled)` }, rangemode: "tozero" } }];
  },

  variables(task, choice, width) {
    const rows = task.variables.map((_, i) => task.variables.length - 1 - i);
    const traces = shownOf(task).map((entry) => line(entry, entry.variables, rows, {
      mode: "markers", hovertemplate: "%{x}",
      marker: { size: 10, opacity: 0.9, color: entry.style(palette().colours).colour, symbol: entry.baseline ? "line-ns-open" : entry.style(palette().colours).symbol },
    }));
    return [traces, {
      height: Math.max(340, 120 + 24 * rows.length), hovermode: "closest",
      xaxis: { title: { text: `${task.score} (scaled)` }, rangemode: "tozero" },
      yaxis: { tickvals: rows, ticktext: task.variables.map((name) => shortened(name, width < 450 ? 14 : 24)), zeroline: false },
    }];
  },

  forecasts(task, choice) {
    const window = task.windows.windows[Number(choice.window)];
    const { truth, forecasts } = window.variables[task.windows.variables[Number(choice.variable)]];
    const ahead = window.dates.slice(window.history);
    const known = { type: "scatter", mode: "lines", x: window.dates, y: truth, name: "true values", line: { color: palette().text, width: 1.5 } };
    const drawn = shownOf(task).filter((entry) => forecasts[entry.number] !== null);
    const traces = drawn.map((entry) => line(entry, ahead, forecasts[entry.number]));
    return [[known, ...traces], {
      height: 420, hovermode: "x unified",
      shapes: [{ type: "line", x0: window.start, x1: window.start, y0: 0, y1: 1, yref: "paper", line: { color: palette().soft, width: 1, dash: "dot" } }],
      xaxis: { type: "date" },
      yaxis: { title: { text: shortened(task.windows.variables[Number(choice.variable)], 40) } },
    }];
  },
};

// The saved picture includes its legend.
const SAVE = {
  name: "save", title: "Save as SVG", icon: Plotly.Icons.camera,
  click(plot) {
    const { data, layout } = plot;
    const room = 60 + 12 * data.filter((trace) => trace.showlegend !== false && trace.name).length;
    const legend = { orientation: "h", y: 0, yref: "container", yanchor: "bottom", x: 0 };
    const paper = { ...layout, showlegend: true, legend, margin: { ...layout.margin, b: room } };
    const size = { width: 640, height: layout.height + room };
    Plotly.downloadImage({ data, layout: paper }, { format: "svg", filename: plot.closest("figure").dataset.chart, ...size });
  },
};

// Entries that the legend of a chart names: not those that the chart omits or names on its axis.
const IN_LEGEND = {
  differences: () => false, ranks: () => false, // the axis names the entries
  errors: (entry) => entry === entry.task.bestBaseline, cost: (entry) => !entry.baseline, curves: (entry) => !entry.baseline,
  cumulative: (entry) => !entry.baseline && entry.cumulative !== null, scaling: () => false,
  forecasts: (entry) => !entry.task.windows.missing.includes(entry.name),
};

function drawLegend(figure, task) {
  const legend = figure.querySelector(".legend");
  const { colours, text } = palette();
  const isInLegend = IN_LEGEND[figure.dataset.chart] ?? (() => true);
  const items = shownOf(task).filter(isInLegend)
    .map((entry) => [entry.baseline && figure.dataset.chart === "variables" ? "|" : entry.glyph, entry.style(colours).colour, entry.name]);
  if (figure.dataset.chart === "forecasts") items.unshift(["━", text, "true values"]);
  if (figure.dataset.chart === "scaling") {
    items.push(...task.scaling[0].lines.map((one) => [GLYPHS[one.colour % GLYPHS.length], colours[one.colour], one.name]));
  }
  legend.replaceChildren(...items.map(([glyph, colour, name]) => {
    const item = document.createElement("li");
    const mark = document.createElement("i");
    mark.textContent = glyph;
    mark.style.color = colour;
    item.append(mark, name);
    return item;
  }));
}

function draw(figure) {
  const plot = figure.querySelector(".plot");
  const task = groups[figure.dataset.task];
  const choice = Object.fromEntries([...figure.querySelectorAll("select")].map((s) => [s.dataset.choice, s.value]));
  const width = printing ? 680 : plot.clientWidth;
  const [traces, { xaxis, yaxis, ...layout }] = charts[figure.dataset.chart](task, choice, width);
  const { text, grid, background } = palette();
  const axis = { gridcolor: grid, linecolor: grid, zerolinecolor: grid, automargin: true };
  Plotly.react(plot, traces, {
    height: 340, width: printing ? width : undefined, autosize: !printing,
    margin: { l: 48, r: 16, t: 16, b: 40 }, paper_bgcolor: background, plot_bgcolor: background,
    font: { color: text, size: printing ? 10 : 12, family: getComputedStyle(root).fontFamily }, showlegend: false,
    hovermode: "closest", hoverlabel: { font: { size: 12 } },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // touch scrolls the page
    ...layout, xaxis: { ...axis, ...xaxis }, yaxis: { ...axis, ...yaxis },
  }, { responsive: true, displaylogo: false, modeBarButtons: [[SAVE], ["zoom2d", "pan2d", "resetScale2d"]] });
  drawLegend(figure, task);
  figure.dataset.drawn = "true";
}
