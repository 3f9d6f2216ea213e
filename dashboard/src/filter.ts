// Owns the filter of the jobs table: its form in the address, in a request, in a bulk action, and which events concern it. Pure.
import { STATES } from './types';
import type { BulkFilter, HubEvent, State } from './types';

export interface Filter { states: State[]; type: string; group: string; queue: string; project: string; label: string; q: string }

const TEXTS = ['type', 'group', 'queue', 'project', 'label', 'q'] as const;
export type TextField = (typeof TEXTS)[number];

export const NO_FILTER: Filter = { states: [], type: '', group: '', queue: '', project: '', label: '', q: '' };

export function readFilter(query: URLSearchParams): Filter {
  const filter: Filter = { ...NO_FILTER };
  const wanted = new Set((query.get('state') ?? '').split(','));
  filter.states = STATES.filter((state) => wanted.has(state));
  for (const field of TEXTS) filter[field] = query.get(field) ?? '';
  return filter;
}

/** The filter as an address and as a request have it: only what is set. */
export function writeFilter(filter: Filter): URLSearchParams {
  const query = new URLSearchParams();
  if (filter.states.length) query.set('state', filter.states.join(','));
  for (const field of TEXTS) if (filter[field].trim()) query.set(field, filter[field].trim());
  return query;
}

export function isEmpty(filter: Filter): boolean {
  return [...writeFilter(filter).keys()].length === 0;
}

/** The filter of a bulk action. Free text cannot be one: the hub takes only exact fields there. */
export function bulkFilter(filter: Filter): BulkFilter | null {
  if (filter.q.trim()) return null;
  return Object.fromEntries(writeFilter(filter));
}

export function toggleState(filter: Filter, state: State): Filter {
  const states = filter.states.includes(state) ? filter.states.filter((one) => one !== state) : [...filter.states, state];
  return { ...filter, states: STATES.filter((one) => states.includes(one)) };
}

/** Whether an event may change what the filter shows. What the event does not tell counts as a match. */
export function concerns(filter: Filter, event: HubEvent): boolean {
  if (!event.job) return false;
  const differs = (wanted: string, value: string | undefined): boolean => wanted !== '' && value !== undefined && wanted !== value;
  return !differs(filter.type, event.task) && !differs(filter.group, event.group) && !differs(filter.queue, event.queue);
}

export function describe(filter: Filter): string {
  const parts = [...writeFilter(filter)].map(([name, value]) => (name === 'q' ? `text “${value}”` : `${name} ${name === 'state' ? value.replaceAll(',', ' or ') : value}`));
  return parts.length ? parts.join(', ') : 'all jobs';
}
