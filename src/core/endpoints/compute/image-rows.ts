/** The rows of container images (contract: Container images). */
import { ImageChange, NewImage } from "../../compute/bodies.ts";
import { addImage, putImage, removeImage } from "../../compute/image-rules.ts";
import { compute } from "./compute-endpoint.ts";

export const IMAGE_ROWS = [
  compute({
    id: "images.list",
    route: "GET /container-images",
    summary: "The account's registered images",
    body: null,
    lists: "image",
    status: 200,
  }),
  compute({
    id: "images.add",
    route: "POST /container-images",
    summary: "Registers an image, with or without a credential for its registry",
    body: NewImage,
    seat: "shared",
    status: 201,
    rule: (facts, _, body) => addImage(facts, body),
  }),
  compute({
    id: "images.get",
    route: "GET /container-images/{id}",
    summary: "One registered image; its secret is never shown",
    body: null,
    on: "image",
    status: 200,
  }),
  compute({
    id: "images.put",
    route: "PUT /container-images/{id}",
    summary: "Changes name, reference or credential",
    body: ImageChange,
    on: "image",
    seat: "shared",
    status: 200,
    rule: putImage,
  }),
  compute({
    id: "images.remove",
    route: "DELETE /container-images/{id}",
    summary: "Removes a registration and its credential",
    body: null,
    on: "image",
    status: 204,
    rule: removeImage,
  }),
] as const;
