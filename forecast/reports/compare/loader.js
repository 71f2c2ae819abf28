// Unpacks the chart library, which is a third of its size when compressed, and then runs it and the page's own script.
"use strict";

(async ({ nonce }) => {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (byte) => byte.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  for (const source of [await new Response(unpacked).text(), document.getElementById("charts").textContent]) {
    const script = document.createElement("script");
    script.nonce = nonce; // the browser runs only scripts with this nonce
    script.textContent = source;
    document.head.append(script);
  }
})(document.currentScript);
