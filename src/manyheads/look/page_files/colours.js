/** Colours of weights and of heads, for light and for dark. */

// From nothing to the strongest weight.
const RAMPS = {
  light: ["#f5f8fc", "#c3daef", "#6aa9d8", "#1f6db4", "#082f66"],
  dark: ["#171d26", "#1d3c61", "#2d70b3", "#78b7f0", "#eef7ff"],
};
// Over a photograph, which has any colour: from clear to a glow.
const GLOW = ["#ff7b0000", "#ff7b0040", "#ff922480", "#ffc04dc0", "#fff3c4f0"];
// The colours of Okabe and Ito, which the colour-blind tell apart; the first is that of one head alone.
const HEADS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b8509a", "#c98500", "#3d9fdc", "#555f6b"],
  dark: ["#6cb4f5", "#ff8a3d", "#2fcf9f", "#e79ac6", "#f0b429", "#a5dcff", "#b8c1cc"],
};
export const SLOTS = HEADS.light.map((_, slot) => slot);

/** Whether the page is dark now, by the button or else by the system. */
export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The colour of a head that has the colour of this place. */
export function colourOf(slot) {
  return HEADS[isDark() ? "dark" : "light"][slot];
}

function channels(colour) {
  return (colour.slice(1) + "ff").slice(0, 8).match(/../g).map((pair) => parseInt(pair, 16));
}

function table(stops) {
  const known = stops.map(channels);
  const colours = new Uint8ClampedArray(256 * 4); // read back four bytes, one colour, at a time
  for (let code = 0; code < 256; code += 1) {
    const place = (code / 255) * (known.length - 1);
    const below = Math.min(Math.floor(place), known.length - 2);
    for (let part = 0; part < 4; part += 1) {
      colours[code * 4 + part] = known[below][part] + (place - below) * (known[below + 1][part] - known[below][part]);
    }
  }
  return new Uint32Array(colours.buffer);
}

const tables = { light: table(RAMPS.light), dark: table(RAMPS.dark), glow: table(GLOW) };

/** The ramp of this theme as a CSS gradient. */
export function gradient() {
  return `linear-gradient(to right, ${RAMPS[isDark() ? "dark" : "light"].join(", ")})`;
}

/** A picture of so many codes from 0 to 255, one point each, to be drawn larger. */
export function pictureOf(width, height, codeAt, glow = false) {
  const colours = tables[glow ? "glow" : isDark() ? "dark" : "light"];
  const image = new ImageData(width, height);
  const points = new Uint32Array(image.data.buffer);
  for (let row = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1) points[row * width + column] = colours[codeAt(row, column)];
  }
  return image;
}

/** How bright the eye finds a colour of three channels, from 0 to 1, as WCAG 2 defines it. */
function brightness(colour) {
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const parts = colour.map((channel) => linear(channel / 255));
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}

/** The colour of a number written on the ramp at a code: of near black and white the one that differs more. */
export function inkOn(code) {
  const bytes = new Uint8Array(tables[isDark() ? "dark" : "light"].buffer, code * 4, 3);
  return brightness([...bytes]) > 0.19 ? "#0c1016" : "#ffffff";
}

/** Where on the ramp a weight lies: its square root, so that small weights differ to the eye. */
export function codeOf(weight, strongest) {
  return strongest > 0 ? Math.min(255, Math.round(255 * Math.sqrt(weight / strongest))) : 0;
}
