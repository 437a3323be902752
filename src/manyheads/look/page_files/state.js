/** What is chosen: one object, changed in one way, of which every part of the page is told. */

import { page } from "manyheads/store";
import { SLOTS } from "manyheads/colours";
import { found, shown } from "manyheads/tokens";

/** The tab in which a view is first seen: where its words, or its picture, are. */
export function firstTab({ rowsArePatches, columnsArePatches }) {
  return page.picture && (rowsArePatches || columnsArePatches) ? "image" : "lines";
}

const first = page.views[0];

export const state = {
  tab: firstTab(first),
  view: 0,
  // Of attention between two texts the last layer tells most. By its place, not by its number: a view may hold only some
  // layers.
  layer: first.kind === "cross" ? first.layers.length - 1 : 0,
  heads: [{ head: 0, slot: 0 }], // by place too, each with the place of its colour
  lead: "row", // the side that stands left among the lines and downwards in the matrix
  search: "",
  pinned: null, // { side, index } of a token
  fit: false,
};

const listeners = [];

/** Calls a function with the names of what changed, after every change. */
export function whenChanged(listener) {
  listeners.push(listener);
}

/** Changes what is chosen. */
export function change(changes) {
  Object.assign(state, changes);
  const names = new Set(Object.keys(changes));
  for (const listener of listeners) listener(names);
}

/** The view that is shown. */
export function view() {
  return page.views[state.view];
}

/** Whether a head of the view, by its places, was removed from the model. */
export function isRemoved(layer, head) {
  return view().removed.some(([itsLayer, itsHead]) => itsLayer === layer && itsHead === head);
}

/** The heads that are chosen and that this layer still has, else its first, in the order in which they were chosen. */
function presentHeads() {
  const present = state.heads.filter(({ head }) => !isRemoved(state.layer, head));
  if (present.length) return present;
  const first = view().heads.findIndex((_, head) => !isRemoved(state.layer, head));
  return [{ head: Math.max(0, first), slot: 0 }];
}

/** The heads that are shown, in the order of their numbers. */
export function shownHeads() {
  return presentHeads().sort((one, other) => one.head - other.head);
}

/** The head of the views that show but one: the one switched on last. */
export function leadingHead() {
  return presentHeads().at(-1).head;
}

/** Shows another view, with as much of the choice as it has. */
export function changeView(number) {
  const { layers, heads } = page.views[number];
  const left = state.heads.filter(({ head }) => head < heads.length);
  change({
    view: number,
    layer: Math.min(state.layer, layers.length - 1),
    heads: left.length ? left : [{ head: 0, slot: 0 }],
    pinned: null,
  });
}

/** Shows one head alone. */
export function chooseHead(head) {
  change({ heads: [{ head, slot: 0 }] });
}

/** Switches a head on or off, in a colour that no other has; the last one stays, and there are no more than colours. */
export function toggleHead(head) {
  const now = presentHeads();
  const others = now.filter((each) => each.head !== head);
  if (others.length < now.length) {
    if (others.length) change({ heads: others });
    return;
  }
  const slot = SLOTS.find((each) => !now.some((used) => used.slot === each));
  if (slot !== undefined) change({ heads: [...now, { head, slot }] });
}

export function otherSide(side) {
  return side === "row" ? "column" : "row";
}

/** The tokens of a side. */
export function tokensOf(side) {
  return side === "row" ? view().rows : view().columns;
}

/** What a side is called. */
export function titleOf(side) {
  const role = side === "row" ? "queries" : "keys";
  if (!view().kind.startsWith("cross")) return role;
  return side === "row" ? `target (${role})` : `source (${role})`;
}

/** A token as it is spoken of. */
export function named(side, index) {
  return `“${shown(tokensOf(side)[index])}”`;
}

/** Which tokens of a side the search finds; none: nothing is searched for. */
export function foundOn(side) {
  return state.search ? found(tokensOf(side), state.search) : null;
}

/** The words that say which head of which layer of what is shown. */
export function selectionText() {
  const { title, layers, heads, rollout } = view();
  if (state.tab.startsWith("section")) return "";
  if (state.tab !== "model") return `${title} · ${layerText(layers[state.layer])}${headsText()}`;
  return `${title} · ${counted(layers, "layer")}${rollout ? "" : ` × ${counted(heads, "head")}`}`;
}

/** A layer as it is spoken of: a rollout has gone through all layers below it too. */
export function layerText(number) {
  return view().rollout ? `up to layer ${number}` : `layer ${number}`;
}

function headsText() {
  if (view().rollout) return "";
  if (isRemoved(state.layer, leadingHead())) return " · every head removed";
  const places = state.tab === "lines" ? shownHeads().map(({ head }) => head) : [leadingHead()];
  return ` · head${places.length > 1 ? "s" : ""} ${places.map((place) => view().heads[place]).join(", ")}`;
}

function counted(things, name) {
  return `${things.length} ${name}${things.length === 1 ? "" : "s"}`;
}
