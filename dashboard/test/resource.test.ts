// Keeping things fresh: when a request is made, and when it is not. In the time of the test, not of the clock.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ApiError } from '../src/api';
import { createResource } from '../src/resource';
import type { Freshness } from '../src/resource';
import type { HubEvent } from '../src/types';

const event: HubEvent = { seq: 1, type: 'work_queued', at: 0, job: 'a' };
let visibility = 'visible';

beforeEach(() => {
  vi.useFakeTimers();
  visibility = 'visible';
  vi.stubGlobal('document', { get visibilityState() { return visibility; } });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** A resource whose answers take a while, and how many were asked for, at once at most. */
function setUp(takes: number, fresh: Freshness, answer: () => number = () => 1) {
  const seen = { asked: 0, open: 0, most: 0 };
  const resource = createResource(async () => {
    seen.asked++;
    seen.most = Math.max(seen.most, ++seen.open);
    await new Promise((done) => setTimeout(done, takes));
    seen.open--;
    return answer();
  }, fresh);
  return { resource, seen };
}

test('a flood of events asks once a second, one request at a time', async () => {
  const { resource, seen } = setUp(20, { on: () => true, least: 1000 });
  resource.start();
  for (let ms = 0; ms < 5000; ms += 10) {
    resource.touch([event]);
    await vi.advanceTimersByTimeAsync(10);
  }
  expect(seen.most).toBe(1);
  expect(seen.asked).toBeGreaterThanOrEqual(5);
  expect(seen.asked).toBeLessThanOrEqual(6);
  resource.stop();
});

test('slow answers are asked for less often', async () => {
  const { resource, seen } = setUp(2000, { on: () => true, least: 1000 });
  resource.start();
  for (let ms = 0; ms < 24_000; ms += 100) {
    resource.touch([event]);
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(seen.most).toBe(1);
  expect(seen.asked).toBeLessThanOrEqual(4);
  resource.stop();
});

test('an event during a request leads to another one', async () => {
  let state = 'before';
  const answers: string[] = [];
  const resource = createResource(async () => {
    const now = state;
    await new Promise((done) => setTimeout(done, 100));
    answers.push(now);
    return now;
  }, { on: () => true, least: 500 });
  resource.start();
  await vi.advanceTimersByTimeAsync(50);
  state = 'after';
  resource.touch([event]);
  await vi.advanceTimersByTimeAsync(2000);
  expect(answers).toEqual(['before', 'after']);
  expect(resource.data.value).toBe('after');
  resource.stop();
});

test('events that do not concern it ask for nothing', async () => {
  const { resource, seen } = setUp(1, { on: (one) => one.service === 's', least: 100 });
  resource.start();
  await vi.advanceTimersByTimeAsync(500);
  resource.touch([event]);
  await vi.advanceTimersByTimeAsync(5000);
  expect(seen.asked).toBe(1);
  resource.stop();
});

test('nothing is asked for while nobody looks, and at once when somebody does', async () => {
  const { resource, seen } = setUp(1, { every: 1000, least: 100 });
  resource.start();
  await vi.advanceTimersByTimeAsync(10);
  visibility = 'hidden';
  await vi.advanceTimersByTimeAsync(60_000);
  expect(seen.asked).toBe(1);
  visibility = 'visible';
  await vi.advanceTimersByTimeAsync(2500);
  expect(seen.asked).toBeGreaterThan(1);
  resource.stop();
});

test('what was known stays when a request fails, and the next success clears the error', async () => {
  let broken = false;
  const { resource } = setUp(1, { every: 1000, least: 100 }, () => {
    if (broken) throw new ApiError(503, 'unavailable', 'the store is away');
    return 7;
  });
  resource.start();
  await vi.advanceTimersByTimeAsync(10);
  broken = true;
  await vi.advanceTimersByTimeAsync(1500);
  expect([resource.data.value, (resource.error.value as ApiError).code]).toEqual([7, 'unavailable']);
  broken = false;
  await vi.advanceTimersByTimeAsync(1500);
  expect([resource.data.value, resource.error.value]).toEqual([7, null]);
  resource.stop();
});

test('what is not there is not asked for again and again', async () => {
  const { resource, seen } = setUp(1, { every: 1000, least: 100 }, () => {
    throw new ApiError(404, 'not_found', 'there is no job');
  });
  resource.start();
  await vi.advanceTimersByTimeAsync(30_000);
  expect(seen.asked).toBe(1);
  resource.refresh();
  await vi.advanceTimersByTimeAsync(100);
  expect(seen.asked).toBe(2);
  resource.stop();
});

test('an answer that comes after the end is dropped', async () => {
  const { resource } = setUp(100, {});
  resource.start();
  await vi.advanceTimersByTimeAsync(10);
  resource.stop();
  await vi.advanceTimersByTimeAsync(1000);
  expect(resource.data.value).toBeNull();
});
