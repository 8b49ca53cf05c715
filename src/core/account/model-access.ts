/** Which models a key may call. */

/** Whether a key's allow-list (exact names and `prefix*`; null: everything) admits a called name. */
export function allowsModel(allowList: readonly string[] | null, model: string): boolean {
  if (allowList === null) return true;
  return allowList.some((entry) => (entry.endsWith("*") ? model.startsWith(entry.slice(0, -1)) : entry === model));
}
