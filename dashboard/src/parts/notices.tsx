// Owns what a page shows instead of or beside its content: a problem, nothing yet, loading, a command to copy.
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ApiError, isAway } from '../api';
import type { Resource } from '../resource';
import { Icon } from './icons';

/** Text of the hub, in which `backticks` mark what is typed. */
export function Words({ text }: { text: string }): JSX.Element {
  return <>{text.split('`').map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}

export function Problem({ error }: { error: unknown }): JSX.Element {
  const api = error instanceof ApiError ? error : null;
  return (
    <div class="problem" role="alert">
      <p><strong><Words text={error instanceof Error ? error.message : String(error)} /></strong>{api && api.status > 0 && <> <code>{api.code}</code></>}</p>
      {api?.help && <p><Words text={api.help} /></p>}
      {api?.retryAfter != null && <p>Try again in {api.retryAfter} s.</p>}
    </div>
  );
}

export function Copy({ text, label = 'Copy' }: { text: string; label?: string }): JSX.Element {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1500);
    } catch {
      // Only offered by browsers on https and loopback; the text can be selected instead.
    }
  };
  return <button type="button" class="icon" onClick={copy} aria-label={done ? 'Copied' : label} title={done ? 'Copied' : label}><Icon name={done ? 'check' : 'copy'} /></button>;
}

export function Command({ text }: { text: string }): JSX.Element {
  return <div class="command"><code tabIndex={0}>{text}</code><Copy text={text} label="Copy the command" /></div>;
}

export function Empty({ title, command, children }: { title: string; command?: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
      {command && <Command text={command} />}
    </div>
  );
}

/** Shows what was loaded; a problem above it, so that old data stays readable; or that it is loading. */
export function Loaded<T>({ of, children }: { of: Resource<T>; children: (data: T) => ComponentChildren }): JSX.Element {
  const data = of.data.value;
  const error = of.error.value;
  return (
    <>
      {error != null && !(data !== null && isAway(error)) && <div class="gap-under"><Problem error={error} /></div>}
      {data !== null ? children(data) : error == null ? <p class="loading" role="status">Loading…</p> : null}
    </>
  );
}
