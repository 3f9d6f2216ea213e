// Owns the address: everything after `#` is a path and a query. Pages read it, links and `go` change it.
import { signal } from '@preact/signals';

export interface Route { path: string[]; query: URLSearchParams }

export function parseHash(hash: string): Route {
  const text = hash.replace(/^#\/?/, '');
  const mark = text.indexOf('?');
  const path = (mark < 0 ? text : text.slice(0, mark)).split('/').filter(Boolean).map(decode);
  return { path, query: new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1)) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(path: string[], query?: URLSearchParams | Record<string, string>): string {
  const text = query ? new URLSearchParams(query).toString() : '';
  return `#/${path.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`;
}

export const route = signal<Route>(parseHash(typeof location === 'undefined' ? '' : location.hash));

export function startRouter(): void {
  window.addEventListener('hashchange', () => {
    route.value = parseHash(location.hash);
  });
}

export function go(to: string, replace = false): void {
  if (replace) {
    history.replaceState(null, '', to);
    route.value = parseHash(location.hash);
  } else location.hash = to;
}
