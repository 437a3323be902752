/** The end of the page's address, which names what is shown: #lines/cross/1/2 is head 2 of layer 1 of cross. */

import { page } from "manyheads/store";
import { SLOTS } from "manyheads/colours";
import { change, firstTab, leadingHead, shownHeads, state, view, whenChanged } from "manyheads/state";

/** What an address asks for, as changes of what is chosen; nothing where any of it is unknown here. */
export function asked() {
  const parts = partsOf(location.hash);
  const tab = document.getElementById(`tab-${parts[0]}`) ? parts.shift() : null;
  if (!parts.length) return tab ? { tab } : {};
  const number = page.views.findIndex(({ kind }) => kind === parts[0]);
  if (number < 0 || parts.length > 3 || tab?.startsWith("section")) return {};
  const { layers, heads, removed } = page.views[number];
  const layer = parts.length > 1 ? layers.findIndex((each) => String(each) === parts[1]) : 0;
  const places = parts.length > 2 ? parts[2].split(",").map((name) => heads.map(String).indexOf(name)) : [0];
  const gone = (head) => head < 0 || removed.some((place) => place.join() === `${layer},${head}`);
  const unknown = parts.length > 2 && (places.some(gone) || new Set(places).size < places.length);
  if (layer < 0 || unknown || places.length > SLOTS.length) return {};
  const heading = tab ?? firstTab(page.views[number]);
  return { tab: heading, view: number, layer, heads: places.map((head, slot) => ({ head, slot })), pinned: null };
}

function partsOf(hash) {
  try {
    return hash.slice(1).split("/").map(decodeURIComponent);
  } catch {
    return [""]; // a lone % names nothing
  }
}

/** Goes where the address is changed to, and keeps it as the choice is. */
export function followAddress() {
  // A tab may be called as a part of the page is, to which the browser has gone.
  const stay = () => window.scrollTo(0, 0);
  stay();
  window.addEventListener("hashchange", () => {
    change(asked());
    stay();
  });
  whenChanged((names) => {
    if (!["tab", "view", "layer", "heads"].some((name) => names.has(name))) return;
    const address = `${location.href.split("#")[0]}#${written()}`;
    if (location.protocol === "about:" || address === location.href) return; // a notebook's frame has no address
    try {
      history.replaceState(null, "", address);
    } catch {
      // Some frames forbid it, and some browsers refuse a hundred in a row: the address then stays behind.
    }
  });
}

/** What is shown, as an address names it. */
function written() {
  const { kind, layers, heads, rollout } = view();
  if (state.tab.startsWith("section")) return state.tab;
  const parts = [state.tab, encodeURIComponent(kind)];
  if (state.tab === "model") return parts.join("/");
  const places = state.tab === "lines" ? shownHeads().map(({ head }) => head) : [leadingHead()];
  parts.push(layers[state.layer]);
  if (!rollout) parts.push(places.map((place) => heads[place]).join(","));
  return parts.join("/");
}
