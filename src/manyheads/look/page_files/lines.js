/** Which lines between tokens are drawn, and the drawing of them. */

const MOST = 4096; // what a browser draws at once without stuttering
const BINS = 1024;
const SHADES = 40;

/** Calls a function with every weight of the chosen heads that has an end among the ends asked for. */
function eachWeight(layer, heads, ends, use) {
  const every = Array.from({ length: layer.columns }, (_, column) => column);
  const any = !ends.row && !ends.column;
  for (const { head, slot } of heads) {
    for (let row = 0; row < layer.rows; row += 1) {
      const columns = any || ends.row?.has(row) ? every : ends.column ?? [];
      for (const column of columns) use(row, column, slot, layer.at(head, row, column));
    }
  }
}

/** The strongest lines, as many as can be drawn, that have an end in one of two sets, or all where there is no set. */
export function strongestLines(layer, heads, ends) {
  const counts = new Uint32Array(BINS + 1);
  const bin = (weight) => Math.min(BINS, Math.ceil(Math.sqrt(weight) * BINS));
  let all = 0;
  let strongest = 0;
  eachWeight(layer, heads, ends, (row, column, slot, weight) => {
    all += 1;
    counts[bin(weight)] += 1;
    if (weight > strongest) strongest = weight;
  });
  let least = BINS + 1;
  for (let room = MOST; least > 1 && counts[least - 1] <= room; ) {
    least -= 1;
    room -= counts[least];
  }
  const lines = [];
  let weakest = strongest;
  eachWeight(layer, heads, ends, (row, column, slot, weight) => {
    if (bin(weight) < least) return;
    lines.push({ row, column, slot, weight });
    if (weight < weakest) weakest = weight;
  });
  return { lines, all: all - counts[0], strongest, weakest }; // a weight of 0 is no line
}

/** Adds a line to a path, moved by so much from the one between the same ends. */
function curve(path, width, from, to, offset) {
  // Moved only up or down, steep lines would run into one another: halfway they must move across as well.
  const across = (4 / 3) * offset * Math.tan(Math.atan((1.8 * (from - to)) / width) / 2);
  path.moveTo(0, from + offset);
  path.bezierCurveTo(width * 0.45 + across, from + offset, width * 0.55 + across, to + offset, width, to + offset);
}

/** Draws lines from left to right; `left` and `right` give the height of a line's ends, `offsets` is added to both. */
export function drawLines(context, width, height, { lines, strongest }, left, right, colour, offsets) {
  const shades = new Map();
  for (const line of lines) {
    const [from, to] = [left(line), right(line)];
    if ((from < 0 && to < 0) || (from > height && to > height)) continue;
    const shade = Math.round((line.weight / strongest) * SHADES);
    if (!shade) continue; // too faint to see
    const name = shade * 16 + line.slot;
    if (!shades.has(name)) shades.set(name, new Path2D());
    const path = shades.get(name);
    curve(path, width, from, to, offsets[line.slot]);
  }
  context.lineWidth = 2;
  // The weak first, so that the strong lie over them.
  for (const [name, path] of [...shades].sort(([one], [other]) => one - other)) {
    context.globalAlpha = Math.floor(name / 16) / SHADES;
    context.strokeStyle = colour(name % 16);
    context.stroke(path);
  }
  context.globalAlpha = 1;
}
