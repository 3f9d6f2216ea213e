// Owns keyset paging: which page is shown, which came before it. No page number, no total: both would cost a count at a million jobs.

/** Cursors of the pages walked through, newest first; the first page has none and is not in the list. */
export type Trail = readonly string[];

/** The trail after a page with this cursor was opened: forwards adds it, backwards cuts the trail, a stranger begins anew. */
export function walk(trail: Trail, before: string | null): Trail {
  if (before === null) return [];
  const place = trail.indexOf(before);
  return place >= 0 ? trail.slice(0, place + 1) : [...trail, before];
}

/** Where "newer" leads: the cursor before the present one, or null for the first page. */
export function newer(trail: Trail): string | null {
  return trail.length > 1 ? (trail[trail.length - 2] ?? null) : null;
}

/** The page's number if the way here is known from the first page. */
export function pageNumber(trail: Trail): number {
  return trail.length + 1;
}

/**
 * What to show when a page was fetched again. While somebody reads or has picked rows, the rows stay where they are and only
 * their content changes; `fresh` says how many there would be on top.
 */
export function merge<T extends { id: string }>(shown: T[], fetched: T[], hold: boolean): { rows: T[]; fresh: number } {
  if (!hold || shown.length === 0) return { rows: fetched, fresh: 0 };
  const byId = new Map(fetched.map((one) => [one.id, one]));
  const there = new Set(shown.map((one) => one.id));
  const rows = shown.map((one) => byId.get(one.id) ?? one);
  return { rows, fresh: fetched.filter((one) => !there.has(one.id)).length };
}
