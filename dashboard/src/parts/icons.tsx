// Owns the drawings. Every state has its own shape, so that nobody needs its colour to tell it.
import type { JSX } from 'preact';
import type { State } from '../types';

const stroke = { fill: 'none', stroke: 'currentColor', 'stroke-width': 2, 'stroke-linecap': 'round', 'stroke-linejoin': 'round' } as const;

const SHAPES: Record<State, JSX.Element> = {
  queued: <circle cx="8" cy="8" r="5.5" {...stroke} />,
  leased: (<><circle cx="8" cy="8" r="5.5" {...stroke} /><path d="M8 2.5a5.5 5.5 0 0 1 0 11z" fill="currentColor" /></>),
  running: <path d="M4.5 2.8v10.4L13 8z" fill="currentColor" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" />,
  completed: <path d="M2.8 8.6l3.4 3.4 7-7.6" {...stroke} stroke-width="2.4" />,
  failed: <path d="M3.5 3.5l9 9m0-9l-9 9" {...stroke} stroke-width="2.4" />,
  cancelled: (<><circle cx="8" cy="8" r="5.5" {...stroke} /><path d="M4.4 11.6l7.2-7.2" {...stroke} /></>),
  quarantined: (<><path d="M8 1.8l6.2 6.2L8 14.2 1.8 8z" {...stroke} /><path d="M8 5.4v3M8 10.6v.1" {...stroke} /></>),
};

const GLYPHS = {
  pause: <path d="M5.2 3v10M10.8 3v10" {...stroke} stroke-width="2.6" />,
  warning: (<><path d="M8 2L1.6 13.4h12.8z" {...stroke} /><path d="M8 6.6v3M8 11.5v.1" {...stroke} /></>),
  clock: (<><circle cx="8" cy="8" r="6" {...stroke} /><path d="M8 4.6V8l2.4 1.6" {...stroke} /></>),
  full: (<><rect x="2.5" y="2.5" width="11" height="11" rx="2" {...stroke} /><path d="M5 10.8h6M5 8h6M5 5.2h6" {...stroke} /></>),
  open: (<><path d="M1.5 8h3l6-4.5M11.5 8h3" {...stroke} /></>),
  copy: (<><rect x="5.5" y="5.5" width="8" height="8" rx="1.5" {...stroke} stroke-width="1.6" /><path d="M10.5 2.5h-6a2 2 0 0 0-2 2v6" {...stroke} stroke-width="1.6" /></>),
  close: <path d="M3.5 3.5l9 9m0-9l-9 9" {...stroke} />,
  sun: (<><circle cx="8" cy="8" r="3" {...stroke} stroke-width="1.6" /><path d="M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8L13 13M3 13l1.2-1.2M11.8 4.2L13 3" {...stroke} stroke-width="1.6" /></>),
  moon: <path d="M13.5 9.8A6 6 0 0 1 6.2 2.5a6 6 0 1 0 7.3 7.3z" {...stroke} stroke-width="1.6" />,
  keys: (<><rect x="1" y="3.5" width="14" height="9" rx="1.8" {...stroke} stroke-width="1.5" /><path d="M4 6.4h.1M6.7 6.4h.1M9.3 6.4h.1M12 6.4h.1M5 9.7h6" {...stroke} stroke-width="1.5" /></>),
  menu: <path d="M2 4h12M2 8h12M2 12h12" {...stroke} />,
  out: <path d="M9.5 2.5H4a1.5 1.5 0 0 0-1.5 1.5v8A1.5 1.5 0 0 0 4 13.5h5.5M7 8h7.5M11.5 5l3 3-3 3" {...stroke} stroke-width="1.6" />,
  check: SHAPES.completed,
} as const;

export type Glyph = keyof typeof GLYPHS;

export function StateIcon({ state }: { state: State }): JSX.Element {
  return <svg viewBox="0 0 16 16" aria-hidden="true">{SHAPES[state]}</svg>;
}

export function Icon({ name }: { name: Glyph }): JSX.Element {
  return <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">{GLYPHS[name]}</svg>;
}

export function Mark(): JSX.Element {
  return (
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#5b4bc4" />
      <path d="M8 9h7M8 16h10M8 23h5" stroke="#fff" stroke-opacity=".65" stroke-width="3" stroke-linecap="round" />
      <path d="M19 21.5v-11l7 5.5z" fill="#fff" />
    </svg>
  );
}
