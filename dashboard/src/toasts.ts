// Owns short messages that come and go. What must stay is shown on the page instead.
import { signal } from '@preact/signals';
import { ApiError } from './api';

export interface Toast { id: number; tone: 'good' | 'bad'; text: string; help?: string | null; link?: { href: string; text: string } }

export const toasts = signal<Toast[]>([]);
let next = 0;

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function tell(tone: Toast['tone'], text: string, more: Partial<Toast> = {}): void {
  const id = ++next;
  toasts.value = [...toasts.value.slice(-3), { ...more, id, tone, text }];
  setTimeout(() => dismiss(id), tone === 'bad' ? 12_000 : 6_000);
}

export function tellError(error: unknown): void {
  if (error instanceof ApiError) tell('bad', error.message, { help: error.help });
  else tell('bad', error instanceof Error ? error.message : String(error));
}

/** Does something that changes the hub and says how it went. */
export async function attempt(what: () => Promise<string | void>): Promise<boolean> {
  try {
    const said = await what();
    if (said) tell('good', said);
    return true;
  } catch (error) {
    tellError(error);
    return false;
  }
}
