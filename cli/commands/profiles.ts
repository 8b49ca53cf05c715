/** `tollgate profile ...`: addresses and tokens in a file of mode 0600. */
import type { Command } from "../command.ts";
import { fault, usage } from "../failure.ts";
import { checkedUrl, profileNamed, profilesPath, readProfiles, writeProfiles } from "../local/settings.ts";
import { yes } from "../show/cells.ts";

const name = { name: "name" } as const;
const LONGEST_TOKEN = 10_000;

const list: Command = {
  words: "profile list",
  about: "The profiles, without their tokens",
  async run({ io, print }) {
    const { current, profiles } = readProfiles(io);
    const rows = Object.entries(profiles).map(([called, { url }]) => ({
      name: called,
      url,
      current: called === current,
    }));
    await print.rows(
      [
        ["name", (row) => row.name],
        ["url", (row) => row.url],
        ["current", (row) => yes(row.current)],
      ],
      rows,
      { empty: `No profiles in ${profilesPath(io)}. 'tollgate profile set' makes one.` },
    );
  },
};

const set: Command = {
  words: "profile set",
  args: [name],
  about: "Keep an address and its token; the token is asked for, or read from standard input",
  options: [],
  examples: [
    "profile set prod --url https://gateway.example",
    "profile set ci --url https://gateway.example < token.txt",
  ],
  async run({ io, given, arg, print }) {
    const called = arg("name");
    if (!/^[\w.-]{1,60}$/.test(called) || called === "__proto__")
      throw usage("A profile's name has letters, digits, `.`, `_`, `-`.");
    const text = given.text("url");
    if (text === undefined) throw usage("Give its address with --url.");
    const url = checkedUrl(text);
    const before = readProfiles(io);
    const token = (
      (await io.question(`Token for ${url} (not shown): `, true)) ?? (await io.input(LONGEST_TOKEN))
    ).trim();
    if (!/^[\x21-\x7e]{1,4096}$/.test(token)) throw usage("That is no token: it must be one word.");
    writeProfiles(io, {
      current: before.current ?? called,
      profiles: { ...before.profiles, [called]: { url, token } },
    });
    await print.thing(
      [
        ["profile", called],
        ["url", url],
        ["file", profilesPath(io)],
      ],
      { name: called, url, file: profilesPath(io) },
    );
  },
};

const use: Command = {
  words: "profile use",
  args: [name],
  about: "Use this profile where none is named",
  async run({ io, arg, print }) {
    const before = readProfiles(io);
    const { url } = profileNamed(before, arg("name"));
    writeProfiles(io, { ...before, current: arg("name") });
    await print.thing(
      [
        ["profile", arg("name")],
        ["url", url],
      ],
      { name: arg("name"), url },
    );
  },
};

const remove: Command = {
  words: "profile remove",
  args: [name],
  about: "Forget a profile and its token",
  async run({ io, arg, print }) {
    const before = readProfiles(io);
    profileNamed(before, arg("name"));
    const { [arg("name")]: _, ...profiles } = before.profiles;
    const current = before.current === arg("name") ? null : before.current;
    writeProfiles(io, { current, profiles });
    if (Object.hasOwn(readProfiles(io).profiles, arg("name"))) throw fault("The profile is still there.");
    await print.thing([["forgotten", arg("name")]], { name: arg("name"), removed: true });
  },
};

export const PROFILE_COMMANDS: readonly Command[] = [list, set, use, remove];
