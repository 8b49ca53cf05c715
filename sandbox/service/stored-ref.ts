/** A stored thing that a call is about. */
export interface StoredRef {
  readonly kind: "response" | "video_job";
  readonly id: string;
}
