// Unpacks the chart library, which is a third of its size when compressed, and then runs it and the page's own script.
"use strict";

const SIGNS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

// Decodes the base 85 of Python's base64.b85encode, in which five signs are four bytes.
function decodeBase85(text) {
  const digits = new Uint8Array(128);
  [...SIGNS].forEach((sign, digit) => (digits[sign.charCodeAt(0)] = digit));
  const missing = (5 - (text.length % 5)) % 5;
  const padded = text + "~".repeat(missing);
  const bytes = new Uint8Array((padded.length / 5) * 4);
  const view = new DataView(bytes.buffer);
  for (let group = 0; group < padded.length / 5; group++) {
    let number = 0;
    for (let place = 0; place < 5; place++) number = 85 * number + digits[padded.charCodeAt(5 * group + place)];
    view.setUint32(4 * group, number);
  }
  return bytes.subarray(0, bytes.length - missing);
}

(async ({ nonce }) => {
  const packed = decodeBase85(document.getElementById("plotly").textContent);
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  for (const source of [await new Response(unpacked).text(), document.getElementById("charts").textContent]) {
    const script = document.createElement("script");
    script.nonce = nonce; // the browser runs only scripts with this nonce
    script.textContent = source;
    document.head.append(script);
  }
})(document.currentScript);
