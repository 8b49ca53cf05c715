/** The rows of cloud drives and shared filesystems (contract: Storage). */
import { NewDrive, NewFilesystem } from "../../compute/bodies.ts";
import { createStorage, deleteStorage } from "../../compute/storage-rules.ts";
import { compute } from "./compute-endpoint.ts";

export const STORAGE_ROWS = [
  compute({
    id: "drives.list",
    route: "GET /cloud-drives",
    summary: "The account's drives, and those deleted in the last 7 days",
    body: null,
    lists: "drive",
    status: 200,
  }),
  compute({
    id: "drives.create",
    route: "POST /cloud-drives",
    summary: "Makes a drive; its first day is held first",
    body: NewDrive,
    needs: "storage",
    seat: "shared",
    repeatable: true,
    status: 202,
    rule: (facts, _, body) => createStorage(facts, "drive", { ...body, mount_path: undefined }),
  }),
  compute({
    id: "drives.delete",
    route: "DELETE /cloud-drives/{id}",
    summary: "Deletes a drive that is not attached, with its data",
    body: null,
    on: "drive",
    status: 202,
    rule: (facts, id) => deleteStorage(facts, "drive", id),
  }),
  compute({
    id: "filesystems.list",
    route: "GET /shared-filesystems",
    summary: "The account's filesystems, and those deleted in the last 7 days",
    body: null,
    lists: "filesystem",
    status: 200,
  }),
  compute({
    id: "filesystems.create",
    route: "POST /shared-filesystems",
    summary: "Makes a filesystem; its first day is held first",
    body: NewFilesystem,
    needs: "storage",
    seat: "shared",
    repeatable: true,
    status: 202,
    rule: (facts, _, body) => createStorage(facts, "filesystem", body),
  }),
  compute({
    id: "filesystems.delete",
    route: "DELETE /shared-filesystems/{id}",
    summary: "Deletes a filesystem that is not attached, with its data; by an owner or admin",
    body: null,
    on: "filesystem",
    role: "admin",
    status: 202,
    rule: (facts, id) => deleteStorage(facts, "filesystem", id),
  }),
] as const;
