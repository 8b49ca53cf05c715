/** The rows of SSH keys (contract: SSH keys). */
import { NewSshKey } from "../../compute/bodies.ts";
import { addKey, removeKey } from "../../compute/key-rules.ts";
import { compute } from "./compute-endpoint.ts";

export const KEY_ROWS = [
  compute({
    id: "keys.list",
    route: "GET /ssh-keys",
    summary: "The account's SSH keys",
    body: null,
    lists: "ssh_key",
    status: 200,
  }),
  compute({
    id: "keys.add",
    route: "POST /ssh-keys",
    summary: "Adds an SSH key; a repeat gets the one that is there",
    body: NewSshKey,
    status: 201,
    rule: (facts, _, body) => addKey(facts, body),
  }),
  compute({
    id: "keys.remove",
    route: "DELETE /ssh-keys/{id}",
    summary: "Removes an SSH key from the account; running machines keep it",
    body: null,
    on: "ssh_key",
    status: 204,
    rule: removeKey,
  }),
] as const;
