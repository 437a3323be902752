/** Makes every part of the page, and shows what the address asks for, or else the first view. */

import { asked, followAddress } from "manyheads/address";
import { makeControls } from "manyheads/controls";
import { makeColumns } from "manyheads/columns";
import { makeMatrix } from "manyheads/matrix";
import { makeModel } from "manyheads/model";
import { makePicture } from "manyheads/picture";
import { change, state } from "manyheads/state";

makeControls();
makeModel();
makeColumns();
makeMatrix();
makePicture();
change({ ...state, ...asked() });
followAddress();
