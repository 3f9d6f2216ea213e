// Owns batching: things that arrive at any rate are handed on at most once per frame, and never more than a bound.

export interface Batcher<T> { push(item: T): void; flush(): void }

/**
 * `schedule` asks for the next frame. More than `bound` things in one frame are not handed on at all: `overflow` is called
 * instead, and whoever listens looks at the whole again.
 */
export function createBatcher<T>(handOn: (items: T[]) => void, overflow: () => void, schedule: (run: () => void) => void, bound = 2000): Batcher<T> {
  let waiting: T[] = [];
  let asked = false;
  let tooMany = false;

  function flush(): void {
    asked = false;
    const items = waiting;
    const over = tooMany;
    waiting = [];
    tooMany = false;
    if (over) overflow();
    else if (items.length) handOn(items);
  }

  return {
    flush,
    push(item) {
      if (!tooMany) waiting.push(item);
      if (waiting.length > bound) {
        tooMany = true;
        waiting = [];
      }
      if (!asked) {
        asked = true;
        schedule(flush);
      }
    },
  };
}

/** The next frame, or soon where there are no frames because the page is hidden. */
export function nextFrame(run: () => void): void {
  if (document.visibilityState === 'visible') requestAnimationFrame(run);
  else setTimeout(run, 250);
}

/** How long to wait before asking again: never more than a quarter of the time is spent asking. */
export function restAfter(tookMs: number, leastMs: number): number {
  return Math.max(leastMs, tookMs * 3);
}

/** How long to wait before the nth try to reach the hub (n from 0), with some spread so that many pages do not come at once. */
export function reconnectDelay(tries: number, random: number): number {
  return Math.round(Math.min(500 * 2 ** Math.min(tries, 10), 8000) * (0.75 + random * 0.5));
}
