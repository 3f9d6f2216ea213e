// Owns how an event is called on the page, and with which colour and shape.
import type { JSX } from 'preact';
import { words } from './format';
import { Icon, StateIcon } from './parts/icons';
import type { HubEvent } from './types';

interface EventLook { tone: string; glyph: JSX.Element; text: string }

const LOOKS: Record<string, EventLook> = {
  work_queued: { tone: 'wait', glyph: <StateIcon state="queued" />, text: 'queued' },
  work_leased: { tone: 'run', glyph: <StateIcon state="leased" />, text: 'handed out' },
  work_started: { tone: 'run', glyph: <StateIcon state="running" />, text: 'started' },
  work_completed: { tone: 'good', glyph: <StateIcon state="completed" />, text: 'completed' },
  work_failed: { tone: 'bad', glyph: <StateIcon state="failed" />, text: 'failed' },
  work_retrying: { tone: 'warn', glyph: <Icon name="clock" />, text: 'tries again' },
  work_cancelled: { tone: 'warn', glyph: <StateIcon state="cancelled" />, text: 'cancelled' },
};

export function eventTone(event: HubEvent): EventLook {
  if (event.type === 'work_failed' && event.state === 'quarantined') return { tone: 'bad', glyph: <StateIcon state="quarantined" />, text: 'quarantined' };
  return LOOKS[event.type] ?? { tone: 'wait', glyph: <Icon name="clock" />, text: words(event.type) };
}
