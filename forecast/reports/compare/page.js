// Interaction of the comparison page: drawing of charts, selection of variants, sorting of tables, colours, print.

const figures = [...document.querySelectorAll("figure")];

// Draw one chart per task of the event loop, so that the page stays responsive.
function drawNext(waiting) {
  if (waiting.length === 0) {
    root.dataset.ready = "true";
    return;
  }
  draw(waiting[0]);
  setTimeout(drawNext, 0, waiting.slice(1));
}

const redraw = () => figures.filter((figure) => figure.dataset.drawn).forEach(draw);

for (const figure of figures) {
  figure.addEventListener("change", () => draw(figure));
}

// ---- selection of variants

for (const chips of document.querySelectorAll(".chips")) {
  const task = tasks[chips.dataset.task];
  for (const entry of task.entries) {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.textContent = `${entry.glyph} ${entry.name}`;
    chip.setAttribute("aria-pressed", task.shown.has(entry));
    chip.addEventListener("click", () => {
      if (!task.shown.delete(entry)) task.shown.add(entry);
      chip.setAttribute("aria-pressed", task.shown.has(entry));
      figures.filter((figure) => figure.dataset.task === chips.dataset.task).forEach(draw);
    });
    chips.append(chip);
  }
}

// ---- tables

function compareValues(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}

for (const table of document.querySelectorAll("table")) {
  table.querySelectorAll("thead button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const heading = button.parentElement;
      const direction = heading.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      table.querySelectorAll("[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", direction);
      const valueOf = (row) => {
        const { value, number } = row.cells[column].dataset;
        return number === undefined ? value : Number(value);
      };
      const sign = direction === "ascending" ? 1 : -1;
      const rows = [...table.tBodies[0].rows].sort((one, other) => {
        const [a, b] = [valueOf(one), valueOf(other)];
        if (a === undefined || b === undefined) return (a === undefined) - (b === undefined); // unknown values last
        return sign * compareValues(a, b);
      });
      table.tBodies[0].append(...rows);
    });
  });
}

// ---- colours and print

document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  redraw();
});
prefersDark.addEventListener("change", redraw);

let closed = [];
let theme;
addEventListener("beforeprint", () => {
  printing = true;
  theme = root.dataset.theme;
  root.dataset.theme = "light";
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((details) => { details.open = true; });
  figures.forEach(draw);
});
addEventListener("afterprint", () => {
  printing = false;
  if (theme === undefined) delete root.dataset.theme; else root.dataset.theme = theme;
  closed.forEach((details) => { details.open = false; });
  redraw();
});

drawNext(figures);
