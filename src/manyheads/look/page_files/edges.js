/** A row that may be wider than the screen: a hint at either end beyond which there is more. */

/** Keeps in data-more whether the row goes on before its start or after its end, for the style to show. */
export function hintAtMore(row) {
  const look = () => {
    const left = row.scrollWidth - row.clientWidth - row.scrollLeft;
    const ends = [row.scrollLeft > 1 && "before", left > 1 && "after"].filter(Boolean).join(" ");
    if (row.dataset.more !== ends) row.dataset.more = ends;
  };
  row.addEventListener("scroll", look);
  new ResizeObserver(look).observe(row);
}

/** Scrolls the row, and nothing else, to its chosen part, with some of the next one in sight. */
export function reveal(row, chosen) {
  const part = row.querySelector(chosen);
  if (!part) return;
  const [frame, box] = [row.getBoundingClientRect(), part.getBoundingClientRect()];
  const beside = 48;
  if (box.left - beside < frame.left) row.scrollLeft += box.left - beside - frame.left;
  else if (box.right + beside > frame.right) row.scrollLeft += box.right + beside - frame.right;
}
