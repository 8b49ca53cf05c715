/** Where a Chromium for the browser tests is: `CHROMIUM` names it, else the usual places are tried. */
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

export const chromiumPath = (): string | undefined => [process.env.CHROMIUM ?? "", ...PLACES].find(existsSync);

export const NO_CHROMIUM =
  "No Chromium was found, so the console's browser tests were left out. Install one (apt-get install chromium) or name it in CHROMIUM.";
