// Owns a live page of jobs: fetched for a query, patched by events at once, fetched again soon after, held still while somebody
// reads. Used by the jobs page and the quarantine.
import { effect, signal } from '@preact/signals';
import type { Signal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import * as api from './api';
import { applyEvents } from './jobs';
import { onEvents } from './live';
import { merge } from './paging';
import { useResource } from './resource';
import type { Resource } from './resource';
import type { HubEvent, Job } from './types';

export interface JobList {
  rows: Signal<Job[] | null>;
  /** The rows are those of the page before; this one is on its way. */
  stale: Signal<boolean>;
  /** How many jobs would stand on top if the rows were not held. */
  fresh: Signal<number>;
  reading: Signal<boolean>;
  picked: Signal<ReadonlySet<string>>;
  page: Resource<api.Page>;
  pick(ids: string[], on: boolean): void;
  /** Stops holding: shows what there is now. */
  showFresh(): void;
}

export const PAGE_SIZE = 50;

export function useJobList(query: URLSearchParams, concerns: (event: HubEvent) => boolean): JobList {
  const key = query.toString();
  const page = useResource(key, (stop) => api.jobs(new URLSearchParams([...query, ['limit', String(PAGE_SIZE)]]), stop), { on: concerns, least: 1000, every: 20_000 });
  const before = useRef<Job[] | null>(null);
  const list = useMemo(() => createList(page, before.current), [page]);
  before.current = list.rows.peek();
  useEffect(() => list.start(), [list]);
  return list;
}

function createList(page: Resource<api.Page>, before: Job[] | null): JobList & { start(): () => void } {
  const rows = signal<Job[] | null>(before);
  const stale = signal(before !== null);
  const fresh = signal(0);
  const reading = signal(false);
  const picked = signal<ReadonlySet<string>>(new Set());

  return {
    rows,
    stale,
    fresh,
    reading,
    picked,
    page,
    pick(ids, on) {
      const next = new Set(picked.value);
      for (const id of ids) if (on) next.add(id); else next.delete(id);
      picked.value = next;
    },
    showFresh() {
      if (page.data.value) rows.value = page.data.value.jobs;
      fresh.value = 0;
      reading.value = false;
      page.refresh();
    },
    start() {
      const offFetched = effect(() => {
        const fetched = page.data.value;
        if (!fetched) return;
        const hold = !stale.peek() && (reading.value || picked.value.size > 0);
        const merged = merge(rows.peek() ?? [], fetched.jobs, hold);
        rows.value = merged.rows;
        stale.value = false;
        fresh.value = merged.fresh;
      });
      const offEvents = onEvents((events) => {
        if (rows.value) rows.value = applyEvents(rows.value, events);
      });
      return () => {
        offFetched();
        offEvents();
      };
    },
  };
}
