/** What the built file begins with: the command line on Node's own streams. */
import { homedir } from "node:os";
import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import type { Io } from "./command.ts";
import { usage } from "./failure.ts";
import { main } from "./main.ts";

const { stdin, stdout, stderr } = process;

// Whoever reads may stop reading, as `head` does.
stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));

const write = (text: string): Promise<void> =>
  new Promise((resolve) => {
    stdout.write(text, () => resolve());
  });

/** Asks on standard error, so that what is printed stays apart. */
async function question(text: string, hidden = false): Promise<string | null> {
  if (!stdin.isTTY || !stderr.isTTY) return null;
  stderr.write(text);
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: stdin, output: hidden ? silent : stderr, terminal: true });
  try {
    const answer = await new Promise<string | null>((resolve) => {
      lines.once("close", () => resolve(null));
      lines.question("").then(resolve, () => resolve(null));
    });
    if (hidden) stderr.write("\n");
    return answer;
  } finally {
    lines.close();
  }
}

async function input(most: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > most) throw usage("Standard input has more than is read here.");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

const io: Io = {
  env: process.env,
  home: homedir(),
  terminal: stdout.isTTY === true,
  out: write,
  err: (text) => void stderr.write(text),
  question,
  input,
  now: Date.now,
  pause: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
};

process.exitCode = await main(process.argv.slice(2), io);
