/** Where a Chromium for the browser tests is: what `CHROMIUM` names, if it is set; else the first of the usual places. */
import { existsSync } from "node:fs";

const PLACES = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/usr/bin/google-chrome-stable",
  "/snap/bin/chromium",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
];

export const chromiumPath = (named = process.env.CHROMIUM): string | undefined =>
  (named ? [named] : PLACES).find(existsSync);

export const NO_CHROMIUM =
  "No Chromium was found, so the console's browser tests were left out. Install one (apt-get install chromium) or name it in CHROMIUM.";
