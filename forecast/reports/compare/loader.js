// Unpacks the chart library, which is a third of its size when compressed, draws the charts, and sorts the tables.
"use strict";

(async ({ nonce }) => {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (sign) => sign.charCodeAt(0));
  const script = document.createElement("script");
  script.nonce = nonce; // the browser runs only scripts with this nonce
  script.textContent = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(script);
  const figures = JSON.parse(document.getElementById("figures").textContent);
  for (const [number, plot] of document.querySelectorAll(".plot").entries()) {
    const config = { responsive: true, displaylogo: false, toImageButtonOptions: { format: "svg" } };
    await Plotly.newPlot(plot, figures[number].data, figures[number].layout, config);
  }
  document.documentElement.dataset.ready = "true";
})(document.currentScript);

for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const heading = button.parentElement, table = heading.closest("table");
    const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    table.querySelectorAll("[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    const valueOf = (row) => row.cells[heading.cellIndex].dataset.value;
    const rows = [...table.tBodies[0].rows].sort((one, other) => {
      const [a, b] = [valueOf(one), valueOf(other)];
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined); // unknown values last
      return sign * (Number.isNaN(a - b) ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
    });
    table.tBodies[0].append(...rows);
  });
}
