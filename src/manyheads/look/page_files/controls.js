/** The tabs, the controls above what is shown, and the line that says what that is. */

import { page } from "manyheads/store";
import { colourOf, isDark, SLOTS } from "manyheads/colours";
import { change, changeView, chooseHead, state, toggleHead, whenChanged } from "manyheads/state";
import { foundOn, isRemoved, layerText, leadingHead, otherSide } from "manyheads/state";
import { selectionText, shownHeads, view } from "manyheads/state";
import { hintAtMore, reveal } from "manyheads/edges";
import { element, rove, SIDEWAYS } from "manyheads/tokens";

const byId = (name) => document.getElementById(name);
// Which control has a use in which view; sections have none.
const USES = {
  kinds: ["lines", "matrix", "model", "image"],
  "layer-control": ["lines", "matrix", "image"],
  "heads-control": ["lines", "matrix", "image"],
  "search-control": ["lines", "matrix"],
  swap: ["lines", "matrix", "image"],
};

/** Makes every control, and keeps each as the choice is. */
export function makeControls() {
  makeTabs();
  makeKinds();
  makeHeads();
  byId("layer").addEventListener("input", (event) => change({ layer: Number(event.target.value) }));
  byId("search").addEventListener("input", (event) => change({ search: event.target.value }));
  byId("swap").addEventListener("click", () => change({ lead: otherSide(state.lead), pinned: null }));
  byId("fit").addEventListener("click", () => change({ fit: !state.fit }));
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    change({ theme: null });
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => change({ theme: null }));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") change({ pinned: null, search: "" });
  });
  whenChanged(showControls);
  for (const name of ["tabs", "kinds"]) hintAtMore(byId(name));
}

function makeTabs() {
  const names = [["lines", "Lines"], ["matrix", "Matrix"], ["model", "Model"]];
  if (page.picture) names.push(["image", "Image"]);
  page.sections.forEach((title, number) => names.push([`section-${number}`, title]));
  for (const [name, title] of names) {
    const settings = { type: "button", role: "tab", dir: "auto", id: `tab-${name}`, "data-tab": name, "data-text": title };
    const tab = element("button", { ...settings, "aria-controls": `panel-${name}` }, title);
    tab.addEventListener("click", () => change({ tab: name }));
    byId("tabs").append(tab);
  }
  rove(byId("tabs"), "button", () => ({ ArrowRight: 1, ArrowLeft: -1 }), (tab) => tab.click());
}

function makeKinds() {
  page.views.forEach(({ kind, title }, number) => {
    const settings = { type: "button", role: "radio", "data-kind": kind, "aria-label": title };
    const text = title.replace(/coder self-attention$/, "coder");
    const button = element("button", { ...settings, "data-text": text }, text);
    button.addEventListener("click", () => changeView(number));
    byId("kinds").append(button);
  });
  rove(byId("kinds"), "button", () => SIDEWAYS, (button) => button.click());
}

function makeHeads() {
  byId("heads").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const head = Number(button.dataset.place);
    if (state.tab === "lines") toggleHead(head);
    else chooseHead(head);
  });
  rove(byId("heads"), "button", () => SIDEWAYS, (button) => state.tab !== "lines" && button.click());
}

function showControls(names) {
  for (const tab of byId("tabs").children) {
    const chosen = tab.dataset.tab === state.tab;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    byId(`panel-${tab.dataset.tab}`).hidden = !chosen;
  }
  // What has no use in this tab keeps its place, so that nothing moves from one tab to the next.
  for (const [name, tabs] of Object.entries(USES)) byId(name).classList.toggle("idle", !tabs.includes(state.tab));
  byId("controls").hidden = state.tab.startsWith("section");
  byId("kinds").hidden = page.views.length === 1;
  byId("layer-control").hidden = view().layers.length === 1;
  byId("heads-control").hidden = view().heads.length === 1 || view().rollout;
  [...byId("kinds").children].forEach((button, number) => {
    button.setAttribute("aria-checked", number === state.view);
    button.tabIndex = number === state.view ? 0 : -1;
  });
  if (names.has("tab")) reveal(byId("tabs"), "[aria-selected=true]");
  if (names.has("tab") || names.has("view")) reveal(byId("kinds"), "[aria-checked=true]");
  showLayer();
  showHeads(names);
  showSearch();
  byId("swap").setAttribute("aria-pressed", state.lead === "column");
  byId("fit").setAttribute("aria-pressed", state.fit);
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"}`);
  const text = selectionText();
  if (byId("selection").textContent !== text) byId("selection").textContent = text;
}

function showLayer() {
  const slider = byId("layer");
  slider.max = view().layers.length - 1;
  slider.value = state.layer;
  slider.setAttribute("aria-valuetext", layerText(view().layers[state.layer]));
  byId("layer-label").textContent = view().rollout ? "Up to layer" : "Layer";
  byId("layer-number").textContent = view().layers[state.layer];
}

function showHeads(names) {
  const whole = byId("heads");
  if (names.has("view") || !whole.children.length) {
    const buttons = view().heads.map((number, place) => {
      return element("button", { type: "button", "data-head": number, "data-place": place }, String(number));
    });
    whole.replaceChildren(...buttons);
  }
  byId("heads-label").textContent = state.tab === "lines" ? "Heads" : "Head";
  const several = state.tab === "lines" ? shownHeads() : [{ head: leadingHead(), slot: 0 }];
  const full = state.tab === "lines" && several.length === SLOTS.length;
  [...whole.children].forEach((button, place) => {
    const removed = isRemoved(state.layer, place);
    const chosen = removed ? null : several.find(({ head }) => head === place);
    button.setAttribute("aria-pressed", Boolean(chosen));
    button.tabIndex = place === leadingHead() ? 0 : -1;
    button.disabled = removed;
    button.setAttribute("aria-label", `head ${view().heads[place]}${removed ? ", removed" : ""}`);
    // Not disabled, so that the arrow keys reach it and it can say why.
    button.setAttribute("aria-disabled", removed || (full && !chosen));
    const why = full && !chosen ? "No colour is left: switch another head off first" : "";
    button.title = removed ? "Removed from this layer" : why;
    button.style.setProperty("--head", chosen ? colourOf(chosen.slot) : "");
    button.style.setProperty("--on-head", isDark() ? "#0c1016" : "#ffffff");
  });
}

function showSearch() {
  const field = byId("search");
  if (field.value !== state.search) field.value = state.search;
  const count = state.search ? foundOn("row").size + foundOn("column").size : 0;
  byId("found").textContent = state.search ? `${count} found` : "";
}
