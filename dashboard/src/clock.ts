// Owns the present instant of the page: the hub's clock, one tick a second, so that a wrong clock here does not make times lie.
import { signal } from '@preact/signals';

let skew = 0;
export const now = signal(Date.now());

/** Told with every status. Small differences are the way of the answer, not of the clock. */
export function hubSays(at: number): void {
  const difference = at - Date.now();
  if (Math.abs(difference - skew) > 1500) {
    skew = Math.abs(difference) > 1500 ? difference : 0;
    now.value = Date.now() + skew;
  }
}

export function startClock(): void {
  setInterval(() => {
    if (document.visibilityState === 'visible') now.value = Date.now() + skew;
  }, 1000);
}
