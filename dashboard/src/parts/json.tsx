// Owns showing a JSON value: indented, coloured by sort, cut off where it is very long.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { count } from '../format';
import type { Json } from '../types';
import { Copy } from './notices';

const MOST = 20_000;
const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

function coloured(text: string): (JSX.Element | string)[] {
  const parts: (JSX.Element | string)[] = [];
  let from = 0;
  for (const found of text.matchAll(TOKEN)) {
    parts.push(text.slice(from, found.index));
    const name = found[2] !== undefined ? 'key' : found[1] !== undefined ? 'string' : found[3] !== undefined ? 'word' : 'number';
    parts.push(<span class={name}>{found[1] ?? found[0]}</span>, found[2] ?? '');
    from = found.index + found[0].length;
  }
  parts.push(text.slice(from));
  return parts;
}

export function JsonView({ value, label }: { value: Json; label: string }): JSX.Element {
  const [whole, setWhole] = useState(false);
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
  const long = text.length > MOST && !whole;
  const shown = long ? text.slice(0, MOST) : text;
  return (
    <div class="json-box">
      <div class="json-copy"><Copy text={text} label={`Copy ${label}`} /></div>
      <pre class="json" tabIndex={0} role="region" aria-label={label}>{typeof value === 'string' || text.length > 200_000 ? shown : coloured(shown)}{long && '…'}</pre>
      {long && <button type="button" class="plain small" onClick={() => setWhole(true)}>Show all {count(text.length)} characters</button>}
    </div>
  );
}
