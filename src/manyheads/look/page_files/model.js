/** The model view: a small picture of every head of every layer. */

import { thumbnails } from "manyheads/store";
import { pictureOf } from "manyheads/colours";
import { change, firstTab, isRemoved, layerText, leadingHead, state, view, whenChanged } from "manyheads/state";
import { element, rove } from "manyheads/tokens";

const grid = document.getElementById("model");
const NOTES = {
  heads: "One picture for each head, its queries downwards and its keys across. A colour is the square root of a "
    + "weight relative to the head’s strongest (square-root scale), so that small weights show. Choose one to open it.",
  rollout: "One picture for each layer, followed down through all layers and heads below it. A colour is the square "
    + "root of a weight relative to the picture’s strongest (square-root scale). Choose one to open it.",
};

/** Makes the view, and keeps it as the choice is. */
export function makeModel() {
  rove(grid, "button", () => {
    const across = view().heads.length;
    return { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across };
  });
  grid.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const head = Number(button.dataset.headPlace);
    const tab = firstTab(view());
    change({ tab, layer: Number(button.dataset.layerPlace), heads: [{ head, slot: 0 }] });
    // By the keyboard: the button that had the focus is gone from sight.
    if (event.detail === 0) document.getElementById(`tab-${tab}`).focus();
  });
  whenChanged(async (names) => {
    if (names.has("view")) makeGrid();
    if (names.has("view") || names.has("theme")) await paint();
    mark();
  });
}

function makeGrid() {
  const { layers, heads, rollout } = view();
  grid.style.gridTemplateColumns = `max-content repeat(${heads.length}, minmax(44px, 200px))`;
  const label = (kind, role, text) => element("span", { class: `label ${kind}`, role }, text);
  const row = (...cells) => element("div", { class: "row", role: "row" }, ...cells);
  const top = row(label("layer corner", "columnheader", `${rollout ? "up\u00a0to" : "head\u00a0→"} layer\u00a0↓`));
  for (const head of heads) top.append(label("", "columnheader", rollout ? "" : String(head)));
  const made = layers.map((layer, layerPlace) => {
    const cells = row(label("layer", "rowheader", String(layer)));
    heads.forEach((_, headPlace) => cells.append(thumbnail(layerPlace, headPlace)));
    return cells;
  });
  grid.replaceChildren(top, ...made);
  document.getElementById("model-note").textContent = NOTES[rollout ? "rollout" : "heads"];
}

/** The button that opens a head; of one that was removed there is nothing to open. */
function thumbnail(layerPlace, headPlace) {
  const { layers, heads, rows, columns, rollout } = view();
  const removed = isRemoved(layerPlace, headPlace);
  const place = layerText(layers[layerPlace]) + (rollout ? "" : `, head ${heads[headPlace]}`);
  const name = removed ? `${place}, removed` : place;
  const button = element("button", {
    type: "button", role: "gridcell", "aria-label": name, title: name,
    "data-layer": layers[layerPlace], "data-head": heads[headPlace],
    "data-layer-place": layerPlace, "data-head-place": headPlace,
    style: `aspect-ratio: ${Math.min(2, Math.max(0.5, columns.length / rows.length))}`,
  });
  button.disabled = removed;
  button.append(removed ? element("span", {}, "removed") : element("canvas", { "aria-hidden": "true" }));
  return button;
}

async function paint() {
  const { width, height, codes } = (await thumbnails())[state.view];
  grid.querySelectorAll("button").forEach(({ firstChild: canvas, disabled }, place) => {
    if (disabled) return;
    const own = codes.subarray(place * width * height, (place + 1) * width * height);
    const most = own.reduce((most, code) => Math.max(most, code), 1);
    canvas.width = width;
    canvas.height = height;
    const picture = pictureOf(width, height, (row, column) => Math.round((own[row * width + column] * 255) / most));
    canvas.getContext("2d").putImageData(picture, 0, 0);
  });
  grid.dataset.painted = state.view;
}

function mark() {
  const across = view().heads.length;
  const buttons = [...grid.querySelectorAll("button")];
  const current = buttons[state.layer * across + leadingHead()];
  const reached = current.disabled ? buttons.find(({ disabled }) => !disabled) : current;
  for (const button of buttons) {
    button.setAttribute("aria-current", button === current && !current.disabled);
    button.tabIndex = button === reached ? 0 : -1;
  }
}
