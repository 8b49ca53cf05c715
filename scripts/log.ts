/** The Workers' log, one readable line an entry: time, Worker, level unless it is plain, text. */

export type Say = (text: string, level?: string) => void;

const QUIET = new Set(["log", "info"]);

export function sayAs(worker: string): Say {
  return (text, level = "log") => {
    const time = new Date().toISOString().slice(11, 23);
    const mark = QUIET.has(level) ? "" : `${level}: `;
    process.stdout.write(`${time} ${worker.padEnd(7)} ${mark}${text}\n`);
  };
}
