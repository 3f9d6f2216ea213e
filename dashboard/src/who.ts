// Owns who is looking: asked once at the start, changed by login and logout, lost when the hub answers 401.
import { signal } from '@preact/signals';
import * as api from './api';
import { startLive } from './live';
import type { Me, Role } from './types';

/** undefined: not asked yet. null: the hub wants a token. */
export const who = signal<Me | null | undefined>(undefined);
export const startError = signal<unknown>(null);

let atTheDoor = false;

api.onUnauthorized(() => {
  if (!atTheDoor) who.value = null;
});

/**
 * Makes the first token of an open hub and goes in with it. The token shuts the door for everybody, so requests that are under
 * way may be refused meanwhile; that must not take the page away before the token was seen.
 */
export async function makeFirstToken<T extends { token: string }>(make: () => Promise<T>): Promise<T> {
  atTheDoor = true;
  try {
    const made = await make();
    await login(made.token);
    startLive();
    return made;
  } finally {
    atTheDoor = false;
  }
}

export async function askWho(): Promise<void> {
  try {
    const me = await api.me();
    who.value = me.role || me.open ? me : null;
    startError.value = null;
  } catch (error) {
    if (error instanceof api.ApiError && error.status === 401) who.value = null;
    else startError.value = error;
  }
}

export async function login(token: string): Promise<void> {
  const answer = await api.login(token);
  who.value = answer?.role ? answer : await api.me();
}

export async function logout(): Promise<void> {
  await api.logout();
  who.value = null;
}

/** Whether the role allows it. The hub decides; this only spares people buttons that would be refused. */
export function may(role: Role): boolean {
  const me = who.value;
  if (!me) return false;
  if (me.open || me.role === 'admin') return true;
  return role === 'read' || me.role === role;
}
