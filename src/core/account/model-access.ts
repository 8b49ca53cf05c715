/** Which models a key may call. */

/** Whether a key's allow-list admits the called name. Entries are exact names or `prefix*`; null admits everything. */
export function allowsModel(allowList: readonly string[] | null, model: string): boolean {
  if (allowList === null) return true;
  return allowList.some((entry) => (entry.endsWith("*") ? model.startsWith(entry.slice(0, -1)) : entry === model));
}
