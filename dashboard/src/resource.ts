// Owns fetching what a page shows and keeping it fresh: again when events concern it, after a gap, and now and then. Never two
// requests at once, never more often than they can be answered, not while nobody looks.
import { signal, useSignalEffect } from '@preact/signals';
import type { Signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { ApiError, isAbort } from './api';
import { restAfter } from './frames';
import { onEvents, resyncs } from './live';
import type { HubEvent } from './types';

export interface Resource<T> {
  data: Signal<T | null>;
  error: Signal<unknown>;
  loading: Signal<boolean>;
  /** Fetches at once: something was changed, or missed. */
  refresh(): void;
}

export interface Freshness {
  /** Which events concern it; none if left out. */
  on?: (event: HubEvent) => boolean;
  /** Least time between two requests, in ms. */
  least?: number;
  /** Asked again at least this often, in ms. */
  every?: number;
}

interface Kept<T> extends Resource<T> { start(): void; stop(): void; touch(events: HubEvent[]): void }

/** What is not there, or not allowed, does not get better by asking now and then. */
function isRefused(error: unknown): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 429;
}

export function createResource<T>(load: (signal: AbortSignal) => Promise<T>, fresh: Freshness): Kept<T> {
  const data = signal<T | null>(null);
  const error = signal<unknown>(null);
  const loading = signal(true);
  const least = fresh.least ?? 1000;
  let controller: AbortController | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let dueAt = Infinity;
  let notBefore = 0;
  let running = false;
  let again = false;

  async function run(): Promise<void> {
    dueAt = Infinity;
    if (running) {
      again = true;
      return;
    }
    const own = controller;
    if (!own) return;
    running = true;
    again = false;
    const begun = performance.now();
    try {
      const value = await load(own.signal);
      if (own.signal.aborted) return;
      data.value = value;
      error.value = null;
    } catch (problem) {
      if (own.signal.aborted || isAbort(problem)) return;
      error.value = problem;
    } finally {
      running = false;
      if (!own.signal.aborted) {
        loading.value = false;
        notBefore = performance.now() + restAfter(performance.now() - begun, least);
        if (again) plan(0);
        else if (fresh.every && !isRefused(error.peek())) plan(fresh.every);
      }
    }
  }

  function plan(delay: number): void {
    if (!controller) return;
    const at = Math.max(performance.now() + delay, notBefore);
    if (at >= dueAt) return;
    dueAt = at;
    clearTimeout(timer);
    timer = setTimeout(tryRun, at - performance.now());
  }

  function tryRun(): void {
    if (document.visibilityState === 'hidden') {
      dueAt = Infinity;
      plan(2000);
    } else void run();
  }

  return {
    data,
    error,
    loading,
    refresh() {
      notBefore = 0;
      plan(0);
    },
    touch(events) {
      if (fresh.on && events.some(fresh.on)) {
        if (running) again = true;
        else plan(0);
      }
    },
    start() {
      controller = new AbortController();
      running = false;
      void run();
    },
    stop() {
      controller?.abort();
      controller = null;
      running = false;
      clearTimeout(timer);
      dueAt = Infinity;
    },
  };
}

/** A resource that lives as long as the component and begins anew when `key` changes. */
export function useResource<T>(key: string, load: (signal: AbortSignal) => Promise<T>, fresh: Freshness = {}): Resource<T> {
  const resource = useMemo(() => createResource(load, fresh), [key]);
  useKept(resource);
  return resource;
}

/** Keeps a resource fresh as long as the component lives. */
export function useKept<T>(resource: Kept<T>): void {
  useEffect(() => {
    resource.start();
    const off = onEvents((events) => resource.touch(events));
    return () => {
      off();
      resource.stop();
    };
  }, [resource]);
  useSignalEffect(() => {
    if (resyncs.value > 0) resource.refresh();
  });
}

export const anyWork = (event: HubEvent): boolean => event.job !== undefined && event.type !== 'work_progress';
