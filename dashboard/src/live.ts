// The only event stream. Opens it, keeps it open, resumes it after the last event seen, and hands events on once per frame.
import { batch, signal } from '@preact/signals';
import * as api from './api';
import { hubSays } from './clock';
import { createBatcher, nextFrame, reconnectDelay } from './frames';
import { readStream } from './sse';
import type { Message } from './sse';
import type { HubEvent, Log } from './types';

export type Connection = { state: 'connecting' | 'live' | 'resting' } | { state: 'offline'; since: number; retryAt: number; why: string };

export const connection = signal<Connection>({ state: 'connecting' });
/** Grows when events were missed: whoever shows something looks at the whole again. */
export const resyncs = signal(0);
/** The latest events, newest first. */
export const recent = signal<HubEvent[]>([]);

const KEEP_RECENT = 60;
const LOOK_BACK = 40;
/** The hub says something every few seconds, if only a comment. Silence this long means that the line is dead. */
const SILENCE_MS = 45_000;
/** A hidden page gives its connection back: a browser has only six per host. */
const REST_AFTER_MS = 60_000;

type Listener = (events: HubEvent[]) => void;
const listeners = new Set<Listener>();

export function onEvents(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const events = createBatcher<HubEvent>(
  (items) =>
    batch(() => {
      recent.value = [...items.slice(-KEEP_RECENT).reverse(), ...recent.value].slice(0, KEEP_RECENT);
      for (const listener of listeners) listener(items);
    }),
  () => resyncs.value++,
  nextFrame,
);

let lastSeen: string | null = null;
let running: AbortController | null = null;
let wake: () => void = () => {};

function receive(message: Message): void {
  if (message.id !== null) lastSeen = message.id;
  if (message.type === 'events_missed' || message.type === 'resync') {
    resyncs.value++;
    return;
  }
  try {
    const event = JSON.parse(message.data) as HubEvent;
    if (typeof event.type !== 'string') event.type = message.type;
    events.push(event);
  } catch {
    // Not one of ours; a later hub may speak of other things.
  }
}

async function listen(signalStop: AbortSignal): Promise<void> {
  const line = new AbortController();
  const stop = (): void => line.abort();
  signalStop.addEventListener('abort', stop);
  let silence = setTimeout(stop, SILENCE_MS);
  const beat = (): void => {
    clearTimeout(silence);
    silence = setTimeout(stop, SILENCE_MS);
  };
  try {
    // The first time there is nothing to resume from: begin a little before the newest event, so that there is something to see.
    if (lastSeen === null) {
      const status = await api.status(line.signal);
      hubSays(status.at);
      lastSeen = String(Math.max(0, (status.last_event ?? 0) - LOOK_BACK));
    }
    const body = await api.openStream(`/api/events?after=${encodeURIComponent(lastSeen)}`, lastSeen, line.signal);
    const wasOffline = connection.value.state !== 'live';
    connection.value = { state: 'live' };
    // What does not come as an event (metrics, windows that moved on) is fetched anew after a gap.
    if (wasOffline) resyncs.value++;
    await readStream(body, receive, beat);
  } finally {
    clearTimeout(silence);
    signalStop.removeEventListener('abort', stop);
  }
}

async function keepListening(stop: AbortSignal): Promise<void> {
  let tries = 0;
  let since = 0;
  while (!stop.aborted) {
    let why = 'the hub closed the stream';
    const begun = Date.now();
    try {
      await listen(stop);
    } catch (error) {
      if (error instanceof api.ApiError && error.status === 401) return;
      if (error instanceof Error && !api.isAbort(error)) why = error.message;
    }
    if (stop.aborted) return;
    if (Date.now() - begun > 10_000 || connection.value.state === 'live') tries = 0;
    if (connection.value.state !== 'offline') since = Date.now();
    const delay = reconnectDelay(tries++, Math.random());
    connection.value = { state: 'offline', since, retryAt: Date.now() + delay, why };
    await new Promise<void>((done) => {
      const timer = setTimeout(done, delay);
      wake = () => {
        clearTimeout(timer);
        done();
      };
    });
  }
}

/** Tries at once instead of waiting. */
export function tryNow(): void {
  wake();
}

export function startLive(): void {
  stopLive();
  running = new AbortController();
  void keepListening(running.signal);
}

export function stopLive(): void {
  running?.abort();
  running = null;
}

export function restWhenHidden(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer);
    if (document.visibilityState === 'hidden') {
      timer = setTimeout(() => {
        if (!running) return;
        stopLive();
        connection.value = { state: 'resting' };
      }, REST_AFTER_MS);
    } else if (connection.value.state === 'resting') startLive();
  });
  window.addEventListener('online', tryNow);
}

/** Follows the output of a job until it ends: lines come once per frame, gaps in the connection are bridged. */
export function followLogs(id: string, after: number, onLines: (lines: Log[]) => void, onState: (state: 'following' | 'ended' | 'offline', error?: unknown) => void): () => void {
  const stop = new AbortController();
  let last = after;
  const lines = createBatcher<Log>(onLines, () => {}, nextFrame, Infinity);
  const once = async (): Promise<boolean> => {
    let ended = false;
    const body = await api.openStream(`/api/jobs/${encodeURIComponent(id)}/logs?follow=true&after=${last}`, null, stop.signal);
    onState('following');
    const take = (message: Message): void => {
      if (message.type === 'end') ended = true;
      if (message.type !== 'log') return;
      const line = JSON.parse(message.data) as Log;
      last = Math.max(last, line.n);
      lines.push(line);
    };
    await readStream(body, take, () => {});
    return ended;
  };
  const follow = async (): Promise<void> => {
    for (let tries = 0; !stop.signal.aborted; tries++) {
      let problem: unknown;
      try {
        if (await once()) return onState('ended');
        tries = 0;
      } catch (error) {
        if (stop.signal.aborted || api.isAbort(error)) return;
        problem = error;
        // A job that is not there, or a role that may not look, does not get better by asking again.
        if (error instanceof api.ApiError && error.status >= 400 && error.status < 500) return onState('offline', error);
      }
      onState('offline', problem);
      await new Promise((done) => setTimeout(done, reconnectDelay(tries, Math.random())));
    }
  };
  void follow();
  return () => stop.abort();
}
