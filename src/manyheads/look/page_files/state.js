/** What is chosen: one object, changed in one way, of which every part of the page is told. */

import { page } from "manyheads/store";
import { SLOTS } from "manyheads/colours";
import { found, shown } from "manyheads/tokens";

export const state = {
  tab: "model",
  view: 0,
  layer: 0, // by its place, not by its number: a view may hold only some layers
  heads: [{ head: 0, slot: 0 }], // by place too, each with the place of its colour
  lead: "row", // the side that stands left in the head view and downwards in the matrix
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

/** The head of the views that show but one: the one switched on last. */
export function leadingHead() {
  return state.heads[state.heads.length - 1].head;
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
  const others = state.heads.filter((each) => each.head !== head);
  if (others.length < state.heads.length) {
    if (others.length) change({ heads: others });
    return;
  }
  const slot = SLOTS.find((each) => !state.heads.some((used) => used.slot === each));
  if (slot !== undefined) change({ heads: [...state.heads, { head, slot }] });
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
  const { title, layers, heads } = view();
  if (state.tab.startsWith("section")) return "";
  if (state.tab === "model") return `${title} · ${counted(layers, "layer")} × ${counted(heads, "head")}`;
  const places = state.tab === "head" ? state.heads.map(({ head }) => head) : [leadingHead()];
  const chosen = places.sort((one, other) => one - other).map((place) => heads[place]);
  return `${title} · layer ${layers[state.layer]} · ${chosen.length > 1 ? "heads" : "head"} ${chosen.join(", ")}`;
}

function counted(things, name) {
  return `${things.length} ${name}${things.length === 1 ? "" : "s"}`;
}
