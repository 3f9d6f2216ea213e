// Owns how instants stand on a page: relative, with the exact one in the title; they move on by themselves.
import type { JSX } from 'preact';
import { now } from '../clock';
import { ago, exact, span } from '../format';

export function Ago({ at }: { at: number | null | undefined }): JSX.Element {
  if (at == null) return <span class="faint">–</span>;
  return <time class="nowrap" dateTime={new Date(at).toISOString()} title={exact(at)}>{ago(at, now.value)}</time>;
}

/** How long until an instant; "any moment" once it has come. */
export function Until({ at }: { at: number }): JSX.Element {
  const left = (at - now.value) / 1000;
  return <time class="nowrap" dateTime={new Date(at).toISOString()} title={exact(at)}>{left <= 0 ? 'any moment' : `in ${span(Math.ceil(left)).replace('.0 ', ' ')}`}</time>;
}
