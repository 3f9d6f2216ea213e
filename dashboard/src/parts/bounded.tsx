// Owns long lists that come whole: only so many are drawn, more on demand.
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { count } from '../format';

const STEP = 100;

export function Bounded<T>({ items, children }: { items: T[]; children: (shown: T[]) => ComponentChildren }): JSX.Element {
  const [most, setMost] = useState(STEP);
  const left = items.length - most;
  return (
    <>
      {children(left > 0 ? items.slice(0, most) : items)}
      {left > 0 && <p class="bounded"><span class="soft">{count(most)} of {count(items.length)}</span><button type="button" class="small" onClick={() => setMost(most + STEP)}>Show {count(Math.min(STEP, left))} more</button></p>}
    </>
  );
}
