// Owns the path of a sparkline in a box of 100 by 30. Pure.

/** The path from left to right, newest at the right edge; empty with fewer than two values. */
export function sparkPath(values: (number | null | undefined)[], most: number | null): string {
  const known = values.filter((value): value is number => typeof value === 'number' && Number.isFinite(value));
  if (known.length < 2) return '';
  const top = most && most > 0 ? most : Math.max(...known, 1e-9) * 1.1;
  const step = 100 / (known.length - 1);
  const points = known.map((value, index) => `${round(index * step)} ${round(29 - Math.min(1, Math.max(0, value / top)) * 28)}`);
  return `M0 ${points[0]!.split(' ')[1]}L${points.slice(1).join('L')}`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
