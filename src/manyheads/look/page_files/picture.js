/** The image view: the weights of one patch, laid over the image. */

import { page } from "manyheads/store";
import { codeOf, pictureOf } from "manyheads/colours";
import { followLayer, sayInstead, sayWeight } from "manyheads/reading";
import { change, leadingHead, named, otherSide, state, tokensOf, view, whenChanged } from "manyheads/state";
import { digits, element, fresh, shown } from "manyheads/tokens";

const frame = document.getElementById("picture");
const image = document.getElementById("grey");
const original = document.getElementById("original");
const canvas = document.getElementById("heat");
const query = document.getElementById("query");
const readout = document.getElementById("image-readout");
let layer = null;
let pointed = null; // the token of the patch under the pointer

/** Makes the view, and keeps it as the choice is. */
export function makePicture() {
  if (!page.picture) return;
  image.src = original.src = page.picture.source;
  image.addEventListener("load", show);
  listen();
  new ResizeObserver(() => requestAnimationFrame(show)).observe(frame.parentElement);
  whenChanged((names) => {
    if (names.has("view") || names.has("lead")) fillQuery();
  });
  followLayer("image", canvas, (read) => {
    layer = read;
    show();
  });
}

function arePatches(side) {
  return side === "row" ? view().rowsArePatches : view().columnsArePatches;
}

/** The token whose weights are shown. */
function chosen() {
  return state.pinned?.side === state.lead ? state.pinned.index : 0;
}

function choose(index) {
  change({ pinned: { side: state.lead, index } });
}

function fillQuery() {
  document.getElementById("query-label").textContent = state.lead === "row" ? "Query" : "Key";
  const options = tokensOf(state.lead).map((token, index) => element("option", { value: index }, shown(token)));
  query.replaceChildren(...options);
}

function listen() {
  const { rows, columns, special } = page.picture;
  query.addEventListener("change", () => choose(Number(query.value)));
  const tokenAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.min(columns - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * columns)));
    const row = Math.min(rows - 1, Math.max(0, Math.floor(((event.clientY - box.top) / box.height) * rows)));
    return special + row * columns + column;
  };
  const point = (token) => {
    pointed = token;
    show();
  };
  canvas.addEventListener("pointermove", (event) => point(tokenAt(event)));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => arePatches(state.lead) && choose(tokenAt(event)));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    const next = Math.max(chosen(), special - 1) + (chosen() < special ? 1 : step);
    if (!step || !arePatches(state.lead)) return;
    event.preventDefault();
    if (next >= special && next < special + rows * columns) choose(next);
  });
}

function show() {
  if (!layer || frame.offsetParent === null || !image.naturalWidth) return;
  const other = otherSide(state.lead);
  query.value = chosen();
  const proportion = image.naturalWidth / image.naturalHeight;
  const width = Math.min(frame.parentElement.clientWidth, Math.max(320, window.innerHeight - 360) * proportion);
  for (const { style } of [frame, original]) {
    style.width = `${width}px`;
    style.aspectRatio = proportion;
  }
  const context = fresh(canvas, frame.clientWidth, frame.clientHeight);
  if (arePatches(other)) drawHeat(context, frame.clientWidth, frame.clientHeight);
  if (arePatches(state.lead)) outline(context, chosen(), 3, "#ffffff");
  if (pointed !== null) outline(context, pointed, 1.5, "#ffffffb0");
  canvas.setAttribute("aria-label", `Weights of ${named(state.lead, chosen())} over the image`);
  showWords(arePatches(other));
}

function weightOf(token) {
  return state.lead === "row" ? layer.at(leadingHead(), chosen(), token) : layer.at(leadingHead(), token, chosen());
}

function strongest() {
  const { rows, columns, special } = page.picture;
  let most = 0;
  for (let token = special; token < special + rows * columns; token += 1) most = Math.max(most, weightOf(token));
  return most;
}

function drawHeat(context, width, height) {
  const { rows, columns, special } = page.picture;
  const most = strongest();
  const small = element("canvas", { width: columns, height: rows });
  const codeAt = (row, column) => codeOf(weightOf(special + row * columns + column), most);
  small.getContext("2d").putImageData(pictureOf(columns, rows, codeAt, true), 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, width, height);
}

function outline(context, token, thickness, colour) {
  const { rows, columns, special } = page.picture;
  if (token < special) return;
  const [row, column] = [Math.floor((token - special) / columns), (token - special) % columns];
  const [wide, high] = [frame.clientWidth / columns, frame.clientHeight / rows];
  for (const [line, stroke] of [[thickness + 2, "#000000a0"], [thickness, colour]]) {
    context.lineWidth = line;
    context.strokeStyle = stroke;
    context.strokeRect(column * wide, row * high, wide, high);
  }
}

function showWords(heated) {
  const { special } = page.picture;
  const other = otherSide(state.lead);
  const note = document.getElementById("image-note");
  if (!heated) {
    sayInstead(readout, "");
    note.textContent = "These weights are not over the image: swap the sides or choose another attention.";
    return;
  }
  const tokens = tokensOf(other).slice(0, special).map((token, index) => `${shown(token)} ${digits(weightOf(index))}`);
  const beside = special ? ` Beside the image: ${tokens.join(", ")}.` : "";
  note.textContent = `The brightest patch weighs ${digits(strongest())}, on a square-root scale.${beside}`;
  if (pointed === null) {
    sayInstead(readout, arePatches(state.lead) ? "choose a patch on the image" : "");
    return;
  }
  const [row, column] = state.lead === "row" ? [chosen(), pointed] : [pointed, chosen()];
  sayWeight(readout, row, column, weightOf(pointed));
}
