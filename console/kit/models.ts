/** The models that the signed-in key may call. */
import { get } from "./api.ts";
import { type Loaded, useLoad } from "./load.ts";
import type { AccountState } from "./types.ts";

export type CallableModel = AccountState["models"][number];

export const useModels = (): Loaded<readonly CallableModel[]> =>
  useLoad(async (signal) => (await get<AccountState>("/account", {}, signal)).models, []);

/** What a newcomer tries first: a chat model, an alias before the others. */
export const firstChat = (models: readonly CallableModel[]): string | undefined => {
  const chats = models.filter(({ kind }) => kind === "chat").map(({ id }) => id);
  return chats.find((id) => id === "chat") ?? chats[0];
};
