// Batching, and the pauses between requests.
import { expect, test } from 'vitest';
import { createBatcher, reconnectDelay, restAfter } from '../src/frames';

function setUp(bound?: number) {
  const frames: (() => void)[] = [];
  const handed: number[][] = [];
  let overflows = 0;
  const batcher = createBatcher<number>((items) => handed.push(items), () => overflows++, (run) => frames.push(run), bound);
  return { batcher, frames, handed, overflows: () => overflows };
}

test('a thousand events in one frame are handed on once, in order', () => {
  const { batcher, frames, handed } = setUp();
  for (let n = 0; n < 1000; n++) batcher.push(n);
  expect(frames).toHaveLength(1);
  frames[0]!();
  expect(handed).toHaveLength(1);
  expect(handed[0]).toEqual(Array.from({ length: 1000 }, (_, n) => n));
});

test('the next event asks for the next frame', () => {
  const { batcher, frames, handed } = setUp();
  batcher.push(1);
  frames[0]!();
  batcher.push(2);
  frames[1]!();
  expect(handed).toEqual([[1], [2]]);
});

test('more than the bound is told once, and nothing of it is handed on', () => {
  const { batcher, frames, handed, overflows } = setUp(10);
  for (let n = 0; n < 100; n++) batcher.push(n);
  frames[0]!();
  expect([handed.length, overflows()]).toEqual([0, 1]);
  batcher.push(7);
  frames[1]!();
  expect(handed).toEqual([[7]]);
});

test('an empty flush hands on nothing', () => {
  const { batcher, handed } = setUp();
  batcher.flush();
  expect(handed).toEqual([]);
});

test('slow answers are asked for less often', () => {
  expect(restAfter(20, 1000)).toBe(1000);
  expect(restAfter(2000, 1000)).toBe(6000);
});

test('reconnecting starts soon and never waits long', () => {
  expect(reconnectDelay(0, 0.5)).toBe(500);
  expect(reconnectDelay(3, 0.5)).toBe(4000);
  for (const tries of [5, 50, 5000]) expect(reconnectDelay(tries, 1)).toBeLessThanOrEqual(10_000);
});
