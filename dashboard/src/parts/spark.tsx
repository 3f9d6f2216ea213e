// Owns the small line of a measure over time, drawn to fill its box.
import type { JSX } from 'preact';
import { sparkPath } from '../spark';

export function Spark({ values, most, label }: { values: (number | null | undefined)[]; most?: number | null; label: string }): JSX.Element {
  const path = sparkPath(values, most ?? null);
  return (
    <svg class="spark" viewBox="0 0 100 30" preserveAspectRatio="none" role="img" aria-label={label}>
      {path && <path d={`${path}V30H0Z`} fill="currentColor" fill-opacity="0.12" />}
      {path && <path d={path} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" />}
    </svg>
  );
}
