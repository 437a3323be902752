/** Makes every part of the page, and shows what the address asks for, or else the first view. */

import { asked, followAddress } from "manyheads/address";
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
change({ ...state, ...asked() });
followAddress();
