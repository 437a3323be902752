/** The lines: two columns of tokens, with lines between them as opaque as their weights. */

import { colourOf } from "manyheads/colours";
import { drawLines, strongestLines } from "manyheads/lines";
import { followLayer } from "manyheads/reading";
import { change, foundOn, shownHeads, state, view, whenChanged } from "manyheads/state";
import { named, otherSide, titleOf, tokensOf } from "manyheads/state";
import { digits, element, fresh, rove, shown } from "manyheads/tokens";

const ROWS = [28, 44]; // the least height of a token’s row, and the most where there is room
const TITLE = 30; // the height of the line above the columns
const AROUND = 500; // what stands above and below the columns
const TALLEST = 40; // as many tokens as are shown without a window of their own, which scrolls
const APART = 4; // between the lines of two heads that have the same ends
const narrow = window.matchMedia("(max-width: 640px)");
const columns = document.getElementById("columns");
const lists = [document.getElementById("left"), document.getElementById("right")];
const canvas = document.getElementById("lines");
const note = document.getElementById("lines-note");
let row = ROWS[0];
let layer = null;
let heads = []; // those shown, in the order of their numbers
let drawn = { lines: [], all: 0, strongest: 0, weakest: 0 };
let unpointed = null; // the lines that are drawn while no token is pointed at, which take long to choose
let pointed = null; // the token under the pointer or the keyboard's focus

/** Makes the view, and keeps it as the choice is. */
export function makeColumns() {
  columns.style.setProperty("--title", `${TITLE}px`);
  for (const list of lists) listen(list);
  columns.addEventListener("scroll", () => requestAnimationFrame(draw));
  new ResizeObserver(() => requestAnimationFrame(fit)).observe(columns);
  window.addEventListener("resize", () => requestAnimationFrame(fit));
  whenChanged((names) => {
    if (names.has("view") || names.has("lead")) {
      pointed = null;
      fill();
    }
    if (names.has("search") || names.has("view") || names.has("lead")) markFound();
  });
  followLayer("lines", columns, (read) => {
    layer = read;
    if (layer) heads = shownHeads(); // else those of the lines that are still drawn
    unpointed = null;
    show();
  });
}

function listen(list) {
  const tokenOf = (event) => {
    const item = event.target.closest("li");
    return item && { side: list.dataset.side, index: Number(item.dataset.index) };
  };
  const point = (token) => {
    pointed = token;
    show();
  };
  const pin = (token) => {
    const again = state.pinned && state.pinned.side === token.side && state.pinned.index === token.index;
    change({ pinned: again ? null : token });
  };
  list.addEventListener("pointerover", (event) => tokenOf(event) && point(tokenOf(event)));
  list.addEventListener("pointerleave", () => point(null));
  list.addEventListener("focusin", (event) => point(tokenOf(event)));
  list.addEventListener("focusout", () => point(null));
  list.addEventListener("click", (event) => tokenOf(event) && pin(tokenOf(event)));
  list.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      pin(tokenOf(event));
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const across = lists[event.key === "ArrowLeft" ? 0 : 1];
      if (across === list) return;
      event.preventDefault();
      across.children[Math.min(tokenOf(event).index, across.children.length - 1)].focus();
    }
  });
  rove(list, "li", () => ({ ArrowDown: 1, ArrowUp: -1 }));
}

function fill() {
  [state.lead, otherSide(state.lead)].forEach((side, place) => {
    const items = tokensOf(side).map((token, index) => {
      const text = element("span", { class: "token", dir: "auto" }, shown(token));
      const settings = { role: "option", "data-side": side, "data-index": index, tabindex: index ? -1 : 0 };
      return element("li", { ...settings, title: shown(token) }, text, element("span", { class: "weights" }));
    });
    lists[place].dataset.side = side;
    lists[place].replaceChildren(...items);
    document.getElementById(place ? "right-title" : "left-title").textContent = titleOf(side);
  });
  columns.classList.toggle("long", Math.max(view().rows.length, view().columns.length) > TALLEST);
  columns.scrollTop = 0;
  fit();
}

/** Rows as high as the window has room for. */
function fit() {
  const tokens = Math.max(view().rows.length, view().columns.length);
  const room = (window.innerHeight - AROUND) / tokens;
  row = Math.round(Math.min(ROWS[1], Math.max(ROWS[0], room)));
  columns.style.setProperty("--row", `${row}px`);
  draw();
}

function markFound() {
  for (const list of lists) {
    const places = foundOn(list.dataset.side);
    [...list.children].forEach((item, index) => {
      item.classList.toggle("found", Boolean(places?.has(index)));
      item.classList.toggle("faded", Boolean(places && !places.has(index)));
    });
  }
}

function show() {
  if (!layer) return;
  columns.style.setProperty("--numbers", mostNumbers());
  const token = pointed ?? state.pinned;
  drawn = token ? strongestLines(layer, heads, { [token.side]: new Set([token.index]) }) : linesUnpointed();
  for (const list of lists) showNumbers(list, token);
  draw();
  const text = noteOf(token);
  if (note.textContent !== text) note.textContent = text;
  note.dataset.drawn = drawn.lines.length;
  note.dataset.lines = drawn.all;
}

function linesUnpointed() {
  unpointed ??= strongestLines(layer, heads, { row: foundOn("row"), column: foundOn("column") });
  return unpointed;
}

/** Writes beside each token of the other side what it weighs for this one. */
function showNumbers(list, token) {
  const other = token && list.dataset.side !== token.side;
  [...list.children].forEach((item, index) => {
    const own = token && !other && token.index === index;
    const pinned = state.pinned && state.pinned.side === list.dataset.side && state.pinned.index === index;
    item.classList.toggle("lit", Boolean(own));
    item.classList.toggle("pinned", Boolean(pinned));
    item.setAttribute("aria-selected", Boolean(pinned));
    const weights = item.lastElementChild;
    if (other) weights.replaceChildren(...numbersOf(token, index));
    else if (weights.firstChild) weights.replaceChildren();
  });
}

/** How many have room beside a token, which is kept for them so that no column moves. */
function mostNumbers() {
  return Math.min(narrow.matches ? 1 : 3, view().heads.length);
}

/** How many numbers stand beside a token: one for each head, or where there is no room for so many their mean. */
function numbers() {
  return heads.length <= mostNumbers() ? heads.length : 1;
}

function numbersOf(token, index) {
  const [row, column] = token.side === "row" ? [token.index, index] : [index, token.index];
  const weights = heads.map(({ head }) => layer.at(head, row, column));
  const number = (head, weight, colour) => {
    const faint = weight < 0.0005 ? "nothing" : "";
    return element("span", { "data-head": head, class: faint, style: `color: ${colour}` }, digits(weight));
  };
  if (weights.length > numbers()) {
    return [number("mean", weights.reduce((sum, weight) => sum + weight, 0) / weights.length, "inherit")];
  }
  return heads.map(({ head, slot }, place) => number(view().heads[head], weights[place], colourOf(slot)));
}

function noteOf(token) {
  const shade = `the most opaque weighs ${digits(drawn.strongest)}`;
  const whose = token ? ` of ${named(token.side, token.index)}` : state.search ? " of the tokens found" : "";
  const means = token && heads.length > numbers();
  const more = means ? ` The numbers are the means of ${heads.length} heads.` : "";
  if (!token && state.search && !foundOn("row").size && !foundOn("column").size) return "No token holds that text.";
  if (!drawn.lines.length) {
    const most = digits(drawn.strongest);
    return `No line${whose} stands out: none weighs more than ${most}. Point at a token for its lines.`;
  }
  if (drawn.lines.length === drawn.all) return `Every line${whose} is drawn; ${shade}.${more}`;
  const [some, all] = [drawn.lines.length, drawn.all].map((count) => count.toLocaleString("en"));
  const rest = token ? more : " Point at a token for all of its lines.";
  return `The ${some} strongest of ${all} lines${whose} are drawn, down to ${digits(drawn.weakest)}; ${shade}.${rest}`;
}

/** Draws what can be seen of the lines; the canvas is as high as the window on the columns, not as the columns. */
function draw() {
  if (columns.offsetParent === null) return;
  const longest = Math.max(...lists.map((list) => list.children.length)) * row;
  const height = Math.min(columns.clientHeight - TITLE, longest);
  canvas.style.height = `${height}px`;
  const width = canvas.clientWidth;
  const context = fresh(canvas, width, height);
  const from = (index) => (index + 0.5) * row - columns.scrollTop;
  const [left, right] = lists.map((list) => (line) => from(line[list.dataset.side]));
  drawLines(context, width, height, drawn, left, right, colourOf, offsets());
}

/** How far below the middle of its tokens the lines of a head lie, by the place of its colour. */
function offsets() {
  const gap = Math.min(APART, (0.75 * row) / heads.length);
  return Object.fromEntries(heads.map(({ slot }, place) => [slot, (place - (heads.length - 1) / 2) * gap]));
}
