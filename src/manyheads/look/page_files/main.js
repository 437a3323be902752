/** Makes every part of the page, and shows the first view. */

import { makeControls } from "manyheads/controls";
import { makeHead } from "manyheads/head";
import { makeMatrix } from "manyheads/matrix";
import { makeModel } from "manyheads/model";
import { makePicture } from "manyheads/picture";
import { change, state } from "manyheads/state";

makeControls();
makeModel();
makeHead();
makeMatrix();
makePicture();
change({ ...state });
