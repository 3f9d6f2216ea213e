// Owns how the state of a job and of a service is shown: text, shape and colour.
import type { JSX } from 'preact';
import { words } from '../format';
import type { State } from '../types';
import { Icon, StateIcon } from './icons';
import type { Glyph } from './icons';

export const STATE_TONE: Record<State, string> = { queued: 'wait', leased: 'run', running: 'run', completed: 'good', failed: 'bad', cancelled: 'warn', quarantined: 'bad' };

export function StateBadge({ state }: { state: State }): JSX.Element {
  return <span class={`badge tone-${STATE_TONE[state] ?? 'wait'}`}><StateIcon state={state} />{state}</span>;
}

const SERVICE: Record<string, [tone: string, glyph: Glyph]> = {
  ok: ['good', 'check'],
  full: ['run', 'full'],
  rate_limited: ['warn', 'clock'],
  held: ['warn', 'clock'],
  circuit_open: ['bad', 'open'],
  circuit_half_open: ['warn', 'open'],
  paused: ['warn', 'pause'],
};

export function ServiceBadge({ status }: { status: string }): JSX.Element {
  const [tone, glyph] = SERVICE[status] ?? ['wait', 'clock'];
  return <span class={`badge tone-${tone}`}><Icon name={glyph} />{words(status)}</span>;
}

export function PausedBadge(): JSX.Element {
  return <span class="badge tone-warn"><Icon name="pause" />paused</span>;
}

export function AliveBadge({ alive }: { alive: boolean }): JSX.Element {
  return alive ? <span class="badge tone-good"><Icon name="check" />online</span> : <span class="badge tone-bad"><Icon name="close" />away</span>;
}
