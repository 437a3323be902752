/** The matrix view: a heat map of one head, with its tokens along both sides. */

import { drawCells, drawNumbers } from "manyheads/cells";
import { gradient } from "manyheads/colours";
import { followLayer, sayInstead, sayWeight } from "manyheads/reading";
import { foundOn, leadingHead, otherSide, state, titleOf, tokensOf, whenChanged } from "manyheads/state";
import { digits, element, fresh, shown } from "manyheads/tokens";

const READABLE = 20; // the smallest cell beside which a token can be read
const LARGEST = 52;
const FEW = 16; // a matrix of no more tokens a side is drawn larger, with its numbers
const LARGEST_OF_FEW = 64;
const FONT = "13px system-ui, sans-serif";
const scroll = document.getElementById("matrix-scroll");
const space = document.getElementById("matrix-space");
const canvas = document.getElementById("matrix");
const readout = document.getElementById("readout");
const fit = document.getElementById("fit");
let layer = null;
let layout = null;
let strongest = 0;
let pointed = null; // { down, across }: the place of a cell
let pinned = null;

/** Makes the view, and keeps it as the choice is. */
export function makeMatrix() {
  listen();
  scroll.addEventListener("scroll", () => requestAnimationFrame(draw));
  new ResizeObserver(() => requestAnimationFrame(show)).observe(scroll.parentElement);
  whenChanged((names) => {
    const cleared = names.has("pinned") && !state.pinned;
    if (names.has("view") || names.has("lead") || cleared) pointed = pinned = null;
    if (state.tab !== "matrix") fit.classList.add("idle");
  });
  followLayer("matrix", canvas, (read) => {
    layer = read;
    strongest = layer ? layer.strongest(leadingHead()) : 0;
    show();
  });
}

function listen() {
  const point = (place) => {
    if (!layer) return; // where the cells will be is not known yet
    pointed = place;
    draw();
  };
  canvas.addEventListener("pointermove", (event) => point(layer && cellAt(event)));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("blur", () => point(null));
  canvas.addEventListener("click", (event) => {
    const cell = layer && cellAt(event);
    pinned = cell && pinned && cell.down === pinned.down && cell.across === pinned.across ? null : cell;
    draw();
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (!layer) return;
    if (event.key === "Enter") pinned = pointed;
    if (event.key === "Enter" || step) event.preventDefault();
    if (step) {
      const now = pointed ?? pinned;
      const clamp = (place, count) => Math.min(Math.max(place, 0), count - 1);
      pointed = now
        ? { down: clamp(now.down + step[0], layout.downs), across: clamp(now.across + step[1], layout.acrosses) }
        : { down: 0, across: 0 };
      reveal(pointed);
    }
    draw();
  });
}

function show() {
  if (!layer || scroll.offsetParent === null) return;
  measure();
  draw();
  fit.classList.toggle("idle", !layout.tooLarge);
  document.getElementById("bar-colours").style.background = gradient();
  // The ramp goes by the square root, so that its middle is a quarter of its end.
  const numbers = [0, strongest / 4, strongest].map((weight) => element("span", {}, digits(weight)));
  document.getElementById("bar-numbers").replaceChildren(...numbers);
}

/** Decides how large a cell is and what room the tokens have. */
function measure() {
  const [downTokens, acrossTokens] = [tokensOf(state.lead), tokensOf(otherSide(state.lead))];
  const [downs, acrosses] = [downTokens.length, acrossTokens.length];
  const width = scroll.parentElement.clientWidth;
  const few = Math.max(downs, acrosses) <= FEW;
  // What the controls above leave; for a few the page may scroll.
  const height = few ? Math.max(640, window.innerHeight - 340) : Math.max(360, window.innerHeight - 400);
  const most = width < 560 ? 84 : 150;
  const context = canvas.getContext("2d");
  context.font = FONT;
  const wide = (token) => context.measureText(clipped(token)).width;
  const longest = (tokens) => Math.min(most, tokens.reduce((longer, token) => Math.max(longer, wide(token)), 24));
  const left = longest(downTokens) + 14;
  const slope = longest(acrossTokens) * Math.SQRT1_2 + 10;
  const [top, right] = [slope + 6, slope];
  const whole = Math.min((width - left - right) / acrosses, (height - top - 4) / downs);
  const tooLarge = whole < READABLE;
  let cell = Math.min(few ? LARGEST_OF_FEW : LARGEST, Math.max(whole, READABLE));
  if (tooLarge && state.fit) cell = Math.max(1, whole);
  layout = { downs, acrosses, left, top, right, cell, most, tooLarge, numbered: few && cell >= READABLE };
  Object.assign(canvas.dataset, { left, top, cell }); // for whoever looks for a cell from outside
  const [across, down] = [left + acrosses * cell + right, top + downs * cell + 2];
  space.style.width = `${across}px`;
  space.style.height = `${down}px`;
  const bar = across > width ? 16 : 0; // of scrolling sideways
  scroll.style.height = `${(state.fit ? down : Math.min(down, height)) + bar}px`;
}

function clipped(token) {
  const letters = [...shown(token)];
  return letters.length > 20 ? `${letters.slice(0, 20).join("")}…` : letters.join("");
}

function cellAt(event) {
  const frame = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
  if (x < layout.left || y < layout.top) return null;
  const across = Math.floor((x - layout.left + scroll.scrollLeft) / layout.cell);
  const down = Math.floor((y - layout.top + scroll.scrollTop) / layout.cell);
  return across < layout.acrosses && down < layout.downs ? { down, across } : null;
}

/** Scrolls to a cell that the keyboard went to. */
function reveal({ down, across }) {
  const { cell, left, top, right } = layout;
  const [x, y] = [across * cell, down * cell];
  scroll.scrollLeft = Math.min(x, Math.max(scroll.scrollLeft, x + cell - (scroll.clientWidth - left - right)));
  scroll.scrollTop = Math.min(y, Math.max(scroll.scrollTop, y + cell - (scroll.clientHeight - top)));
}

function weightAt(down, across) {
  return state.lead === "row" ? layer.at(leadingHead(), down, across) : layer.at(leadingHead(), across, down);
}

/** Draws what can be seen of the matrix; the tokens stay at its sides when it is scrolled. */
function draw() {
  if (!layer || scroll.offsetParent === null) return;
  const { downs, acrosses, left, top, right, cell } = layout;
  const width = Math.min(scroll.clientWidth, left + acrosses * cell + right);
  const height = Math.min(scroll.clientHeight, top + downs * cell + 2);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = fresh(canvas, width, height);
  const seen = {
    x: left - scroll.scrollLeft,
    y: top - scroll.scrollTop,
    across: Math.floor(scroll.scrollLeft / cell),
    down: Math.floor(scroll.scrollTop / cell),
    acrossEnd: Math.min(acrosses, Math.ceil((scroll.scrollLeft + width - left) / cell)),
    downEnd: Math.min(downs, Math.ceil((scroll.scrollTop + height - top) / cell)),
  };
  context.save();
  context.beginPath();
  context.rect(left, top, width - left, height - top);
  context.clip();
  drawCells(context, seen, cell, weightAt, strongest);
  if (layout.numbered) drawNumbers(context, seen, cell, weightAt, strongest);
  fade(context, seen);
  drawMarks(context, seen);
  context.restore();
  drawTokens(context, seen);
  showReadout();
}

/** Frames the cells that are pointed at and pinned. */
function drawMarks(context, seen) {
  const { cell } = layout;
  const { color } = getComputedStyle(document.body);
  context.strokeStyle = color;
  for (const place of [pinned, pointed]) {
    if (!place) continue;
    const [x, y] = [seen.x + place.across * cell, seen.y + place.down * cell];
    context.lineWidth = place === pointed ? 2 : 3;
    context.strokeRect(x, y, cell, cell);
    if (cell >= READABLE) continue;
    // A cell too small to see is led to.
    context.globalAlpha = 0.35;
    context.fillStyle = color;
    context.fillRect(layout.left, y + cell / 2, x - layout.left, 1);
    context.fillRect(x + cell / 2, layout.top, 1, y - layout.top);
    context.globalAlpha = 1;
  }
}

/** Lays a veil over the cells that the search does not find. */
function fade(context, seen) {
  const [downs, acrosses] = [foundOn(state.lead), foundOn(otherSide(state.lead))];
  if (!downs) return;
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.globalAlpha = 0.75;
  const { cell } = layout;
  for (let down = seen.down; down < seen.downEnd; down += 1) {
    if (downs.has(down)) continue;
    for (let across = seen.across; across < seen.acrossEnd; across += 1) {
      if (!acrosses.has(across)) context.fillRect(seen.x + across * cell, seen.y + down * cell, cell, cell);
    }
  }
  context.globalAlpha = 1;
}

/** Writes the tokens that can be seen beside their rows and, at a slant, above their columns. */
function drawTokens(context, seen) {
  const { left, top, cell } = layout;
  const [place, other] = [pointed ?? pinned, otherSide(state.lead)];
  const sides = [
    { side: state.lead, from: seen.down, to: seen.downEnd, chosen: place?.down, start: seen.y, edge: top },
    { side: other, from: seen.across, to: seen.acrossEnd, chosen: place?.across, start: seen.x, edge: left },
  ];
  const every = Math.ceil(READABLE / cell); // of cells too small to read beside, only some are named
  sides.forEach(({ side, from, to, chosen, start, edge }, slanted) => {
    const [tokens, found] = [tokensOf(side), foundOn(side)];
    for (let index = from; index < to; index += 1) {
      const middle = start + (index + 0.5) * cell;
      const marked = index === chosen || found?.has(index);
      const crowded = index % every !== 0 || Math.abs(index - chosen) < every;
      if (middle < edge || (crowded && !marked)) continue;
      const [x, y] = slanted ? [middle, top - 8] : [left - 8, middle];
      write(context, tokens[index], x, y, slanted, marked);
    }
  });
}

function write(context, token, x, y, slanted, marked) {
  context.save();
  context.translate(x, y);
  if (slanted) context.rotate(-Math.PI / 4);
  context.font = marked ? `600 ${FONT}` : FONT;
  context.fillStyle = getComputedStyle(marked ? document.body : scroll).color;
  context.textAlign = slanted ? "left" : "right";
  context.textBaseline = "middle";
  context.fillText(clipped(token), 0, 0, layout.most);
  context.restore();
}

function showReadout() {
  const place = pointed ?? pinned;
  const [downTitle, acrossTitle] = [titleOf(state.lead), titleOf(otherSide(state.lead))];
  canvas.setAttribute("aria-label", `Heat map, ${downTitle} down, ${acrossTitle} across`);
  // Written only when it says something new, or a reader of the screen would repeat it.
  const key = place ? [place.down, place.across, weightAt(place.down, place.across)].join() : downTitle + acrossTitle;
  if (readout.dataset.key === key) return;
  readout.dataset.key = key;
  if (!place) {
    sayInstead(readout, `${downTitle} ↓, ${acrossTitle} →`);
    return;
  }
  const [row, column] = state.lead === "row" ? [place.down, place.across] : [place.across, place.down];
  sayWeight(readout, row, column, weightAt(place.down, place.across));
}
