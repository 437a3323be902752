/** What the file holds: its views, a small picture of every head, and the weights of a layer once asked for. */

export const page = JSON.parse(document.getElementById("page-data").textContent);

const SMALL_PICTURE = 32; // the side of a thumbnail, as the file was packed
const LAYERS_KEPT = 4; // one layer of 12 heads over 512 tokens takes 12 MB
const kept = new Map();

/** The bytes of a block: base64 of what zlib deflated. */
async function bytesOf(block) {
  const text = atob(block.textContent);
  const packed = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index += 1) packed[index] = text.charCodeAt(index);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/** A block of the file, which the browser may not have read to its end yet. */
async function blockNamed(name) {
  for (;;) {
    const block = document.getElementById(name);
    // Only what follows a block shows that it is whole.
    if (block && (block.nextElementSibling || document.readyState !== "loading")) return block;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Weights from the numbers of their steps, which are steps of the square root. */
function decoded(buffer) {
  if (page.levels === null) return new Float32Array(buffer);
  const table = Float32Array.from({ length: page.levels + 1 }, (_, code) => (code / page.levels) ** 2);
  const codes = new Uint8Array(buffer);
  const weights = new Float32Array(codes.length);
  for (let index = 0; index < codes.length; index += 1) weights[index] = table[codes[index]];
  return weights;
}

function largest(weights) {
  return weights.reduce((most, weight) => Math.max(most, weight), 0);
}

async function readLayer(viewNumber, layerNumber) {
  const { heads, rows, columns } = page.views[viewNumber];
  const weights = decoded(await bytesOf(await blockNamed(`weights-${viewNumber}-${layerNumber}`)));
  const size = rows.length * columns.length;
  return {
    heads: heads.length,
    rows: rows.length,
    columns: columns.length,
    weights,
    at: (head, row, column) => weights[head * size + row * columns.length + column],
    strongest: (head) => largest(weights.subarray(head * size, (head + 1) * size)),
  };
}

/** The weights of one layer of one view; both are counted from 0. */
export function layerOf(viewNumber, layerNumber) {
  const name = `${viewNumber}-${layerNumber}`;
  const layer = kept.get(name) ?? readLayer(viewNumber, layerNumber);
  kept.delete(name);
  kept.set(name, layer);
  if (kept.size > LAYERS_KEPT) kept.delete(kept.keys().next().value);
  return layer;
}

let smallPictures = null;

/** For each view the thumbnails of its heads, layer by layer: their height, width and codes from 0 to 255. */
export function thumbnails() {
  smallPictures ??= bytesOf(document.getElementById("thumbnails")).then((buffer) => {
    let start = 0;
    return page.views.map(({ rows, columns, layers, heads }) => {
      const height = Math.min(rows.length, SMALL_PICTURE);
      const width = Math.min(columns.length, SMALL_PICTURE);
      const codes = new Uint8Array(buffer, start, layers.length * heads.length * height * width);
      start += codes.length;
      return { height, width, codes };
    });
  });
  return smallPictures;
}
