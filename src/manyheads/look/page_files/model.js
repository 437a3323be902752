/** The model view: a small picture of every head of every layer. */

import { page, thumbnails } from "manyheads/store";
import { pictureOf } from "manyheads/colours";
import { change, leadingHead, state, view, whenChanged } from "manyheads/state";
import { element, rove } from "manyheads/tokens";

const grid = document.getElementById("model");

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
    const { rowsArePatches, columnsArePatches } = view();
    const tab = page.picture && (rowsArePatches || columnsArePatches) ? "image" : "head";
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
  const { layers, heads, rows, columns } = view();
  const proportion = Math.min(2, Math.max(0.5, columns.length / rows.length));
  const widest = heads.length > 8 ? 84 : 116;
  grid.style.gridTemplateColumns = `max-content repeat(${heads.length}, minmax(44px, ${widest}px))`;
  const label = (kind, role, text) => element("span", { class: `label ${kind}`, role }, text);
  const row = (...cells) => element("div", { class: "row", role: "row" }, ...cells);
  const top = row(label("layer corner", "columnheader", "head\u00a0→ layer\u00a0↓"));
  for (const head of heads) top.append(label("", "columnheader", String(head)));
  const made = layers.map((layer, layerPlace) => {
    const cells = row(label("layer", "rowheader", String(layer)));
    heads.forEach((head, headPlace) => {
      const settings = {
        type: "button", role: "gridcell", "aria-label": `layer ${layer}, head ${head}`,
        "data-layer": layer, "data-head": head, "data-layer-place": layerPlace, "data-head-place": headPlace,
        title: `layer ${layer}, head ${head}`, style: `aspect-ratio: ${proportion}`,
      };
      cells.append(element("button", settings, element("canvas", { "aria-hidden": "true" })));
    });
    return cells;
  });
  grid.replaceChildren(top, ...made);
}

async function paint() {
  const { width, height, codes } = (await thumbnails())[state.view];
  grid.querySelectorAll("canvas").forEach((canvas, place) => {
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
  grid.querySelectorAll("button").forEach((button, place) => {
    const current = place === state.layer * across + leadingHead();
    button.setAttribute("aria-current", current);
    button.tabIndex = current ? 0 : -1;
  });
}
