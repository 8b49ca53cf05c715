/** Registered container images, and which credential a launch pulls with. */
import { z } from "zod";
import { fingerprint } from "../seed.ts";
import { imageDocument } from "./documents.ts";
import type { Account, Image, Machine } from "./records.ts";
import { answer, type Checked, fine, no, type Route, refuse, route } from "./route.ts";
import type { World } from "./world.ts";

/** A registry whose tokens expire after 12 hours. */
const SHORT_LIVED = /^\d{12}\.dkr\.ecr(-fips)?\.[a-z0-9-]+\.amazonaws\.com(\.cn)?$/;
/** A registry refuses such a secret. */
const REJECTED = /^bad-/;

const ImageFields = {
  name: z.string().min(1),
  registry_url: z.string().min(1).regex(/^\S+$/, "must be an image reference without spaces"),
  registry_username: z.string().optional(),
  registry_secret: z.string().optional(),
};

/** The host before the first `/`; without one, Docker's. */
function hostOf(reference: string): string {
  const [first = "", ...rest] = reference.split("/");
  return rest.length > 0 && /[.:]|^localhost$/.test(first) ? first.toLowerCase() : "docker.io";
}

/** What a body says of the credential: a new one, none any more (null), or nothing (undefined). */
function credentialIn(
  body: { registry_username?: string | undefined; registry_secret?: string | undefined },
  registryUrl: string,
): Checked<Image["credential"] | undefined> {
  const { registry_username: username, registry_secret: secret } = body;
  if ((username === undefined) !== (secret === undefined) || (username === "") !== (secret === "")) {
    return no(400, "Send `registry_username` and `registry_secret` together.");
  }
  if (username === undefined || secret === undefined) return fine(undefined);
  if (username === "") return fine(null);
  const host = hostOf(registryUrl);
  if (SHORT_LIVED.test(host)) {
    return no(
      400,
      "Tokens of this registry expire after 12 hours. Make the repository public or grant us pull access.",
    );
  }
  return fine({ username, secret, host });
}

/** The credential for a launch of this image: of the registration with exactly this reference. */
export function pullCredential(world: World, account: Account, reference: string): Checked<Machine["pulledAs"]> {
  const registered = world
    .list(account, "image")
    .findLast((image) => !image.removed && image.registryUrl === reference && image.credential);
  const credential = registered?.credential;
  if (!credential || credential.host !== hostOf(reference)) return fine(null);
  if (REJECTED.test(credential.secret)) {
    return no(
      400,
      `The registry ${credential.host} rejected the stored credential of image ${registered.id}. Change it.`,
    );
  }
  return fine({ username: credential.username, secret: fingerprint(credential.secret) });
}

export const IMAGES: readonly Route[] = [
  route("GET /container-images", {
    lists: true,
    serve: ({ world, account }) =>
      answer(
        200,
        world
          .list(account, "image")
          .filter(({ removed }) => !removed)
          .map(imageDocument),
      ),
  }),
  route("POST /container-images", {
    body: z.object(ImageFields),
    serve: ({ world, account, nowMs }, body) => {
      const credential = credentialIn(body, body.registry_url);
      if (!credential.ok) return credential.answer;
      const image: Image = {
        kind: "image",
        id: world.newId(),
        account: account.account,
        createdMs: nowMs,
        name: body.name,
        registryUrl: body.registry_url,
        credential: credential.value ?? null,
        removed: false,
      };
      world.add(image);
      return answer(201, imageDocument(image), image.id);
    },
  }),
  route("GET /container-images/:id", {
    on: "image",
    serve: (_, __, image) => answer(200, imageDocument(image), image.id),
  }),
  route("PUT /container-images/:id", {
    on: "image",
    body: z.object(ImageFields).partial(),
    serve: ({ world }, body, image) => {
      if (Object.keys(body).length === 0) return refuse(400, "Send the fields to change.");
      const registryUrl = body.registry_url ?? image.registryUrl;
      const credential = credentialIn(body, registryUrl);
      if (!credential.ok) return credential.answer;
      image.name = body.name ?? image.name;
      image.registryUrl = registryUrl;
      if (credential.value !== undefined) image.credential = credential.value;
      world.touch(image);
      return answer(200, imageDocument(image), image.id);
    },
  }),
  route("DELETE /container-images/:id", {
    on: "image",
    serve: ({ world }, _, image) => {
      image.removed = true;
      image.credential = null;
      world.touch(image);
      return answer(204, null, image.id);
    },
  }),
];
