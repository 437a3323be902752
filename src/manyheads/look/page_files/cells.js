/** The cells of the matrix: their colours, and where there is room the numbers in them. */

import { codeOf, inkOn, pictureOf } from "manyheads/colours";
import { element } from "manyheads/tokens";

const NARROW = 32; // a cell of this size has no room for the 0 before the point

/** Draws the cells that are seen, each as large as `cell`. */
export function drawCells(context, seen, cell, weightAt, strongest) {
  const [wide, high] = [seen.acrossEnd - seen.across, seen.downEnd - seen.down];
  if (wide < 1 || high < 1) return;
  const small = element("canvas", { width: wide, height: high });
  const codeAt = (row, column) => codeOf(weightAt(seen.down + row, seen.across + column), strongest);
  small.getContext("2d").putImageData(pictureOf(wide, high, codeAt), 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, seen.x + seen.across * cell, seen.y + seen.down * cell, wide * cell, high * cell);
}

/** Writes the weight of each cell that is seen into it, dark on light or light on dark. */
export function drawNumbers(context, seen, cell, weightAt, strongest) {
  context.font = `${Math.min(15, Math.max(10, cell / 3.4))}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let down = seen.down; down < seen.downEnd; down += 1) {
    for (let across = seen.across; across < seen.acrossEnd; across += 1) {
      const weight = weightAt(down, across);
      context.fillStyle = inkOn(codeOf(weight, strongest));
      context.globalAlpha = weight < 0.005 ? 0.6 : 1; // what is next to nothing should not call for the eye
      context.fillText(written(weight, cell), seen.x + (across + 0.5) * cell, seen.y + (down + 0.5) * cell);
    }
  }
  context.globalAlpha = 1;
}

/** A weight with 2 digits. */
function written(weight, cell) {
  const text = weight.toFixed(2);
  if (cell >= NARROW) return text;
  return text.startsWith("0") ? text.slice(1) : text.slice(0, 3);
}
