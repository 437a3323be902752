/** The weights of the layer that is chosen, and the words that say one of them. */

import { layerOf } from "manyheads/store";
import { state, tokensOf, view, whenChanged } from "manyheads/state";
import { digits, element, shown } from "manyheads/tokens";

/** Gives a view its layer at every change while its tab is open, and nothing while that is still being read. */
export function followLayer(tab, place, use) {
  whenChanged(async () => {
    if (state.tab !== tab) return;
    const [viewNumber, layerNumber] = [state.view, state.layer];
    use(null);
    const layer = await layerOf(viewNumber, layerNumber);
    // Another may have been chosen meanwhile.
    if (state.tab !== tab || viewNumber !== state.view || layerNumber !== state.layer) return;
    Object.assign(place.dataset, { kind: view().kind, layer: view().layers[layerNumber] });
    use(layer);
  });
}

/** Writes which token looks at which, and with what weight. */
export function sayWeight(readout, row, column, weight) {
  const value = digits(weight);
  Object.assign(readout.dataset, { row, column, value });
  const token = (side, index) => element("bdi", {}, shown(tokensOf(side)[index]));
  const words = ["“", token("row", row), "” looks at “", token("column", column), "” with "];
  readout.replaceChildren(...words, element("b", {}, value));
}

/** Writes something else in its place. */
export function sayInstead(readout, text) {
  for (const name of ["row", "column", "value"]) delete readout.dataset[name];
  readout.textContent = text;
}
