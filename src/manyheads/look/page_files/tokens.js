/** Tokens as they are read, and the elements that show them. */

const MARKS = { " ": "␣", "\n": "↵", "\r": "↵", "\t": "⇥" };

/** A token that can be seen: what is empty or only space would else be a gap. */
export function shown(token) {
  if (token === "") return "∅";
  const marked = token.replace(/\r\n|[\n\r\t]/g, (space) => MARKS[space[0]]);
  if (/^[\s\p{Z}\p{Cf}]+$/u.test(marked)) return marked.replace(/./gu, "␣");
  // Controls, halves of letters, and what turns the direction of all that follows.
  return marked.replace(/[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/gu, "�");
}

/** The places of the tokens that hold the text, capitals or not. */
export function found(tokens, text) {
  const wanted = text.toLowerCase();
  const places = new Set();
  tokens.forEach((token, index) => {
    if (token.toLowerCase().includes(wanted) || shown(token).includes(text)) places.add(index);
  });
  return places;
}

/** A weight with 3 digits. */
export function digits(weight) {
  return weight.toFixed(3);
}

/** An element; text is put in as text, whatever it holds. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Arrow keys move among the parts of a whole, of which Tab reaches one; `steps` gives how far each key goes. */
export function rove(whole, parts, steps, moved = () => {}) {
  whole.addEventListener("keydown", (event) => {
    const all = [...whole.querySelectorAll(parts)];
    const place = all.indexOf(event.target.closest(parts));
    let step = steps()[event.key];
    let next = place + step;
    if (event.key === "Home") [next, step] = [0, 1];
    if (event.key === "End") [next, step] = [all.length - 1, -1];
    while (all[next]?.disabled) next += step;
    if (place < 0 || !(next >= 0 && next < all.length)) return;
    event.preventDefault();
    all[next].focus();
    moved(all[next]);
  });
  whole.addEventListener("focusin", (event) => {
    const part = event.target.closest(parts);
    if (!part) return;
    for (const each of whole.querySelectorAll(parts)) each.tabIndex = each === part ? 0 : -1;
  });
}

export const SIDEWAYS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** Makes a canvas as fine as the screen and gives the means to draw on it, with lengths as in the style. */
export function fresh(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const [across, down] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
