// Owns page heads, cards and form fields: the shapes every page is made of.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId } from 'preact/hooks';

export function Head({ title, actions, children }: { title: string; actions?: ComponentChildren; children?: ComponentChildren }): JSX.Element {
  useEffect(() => {
    document.title = `${title} · runcue`;
  }, [title]);
  return (
    <div class="head">
      <h1>{title}</h1>
      {actions && <div class="actions">{actions}</div>}
      {children && <p class="under">{children}</p>}
    </div>
  );
}

export function Card({ title, actions, bare, class: name = '', children }: { title?: ComponentChildren; actions?: ComponentChildren; bare?: boolean; class?: string; children: ComponentChildren }): JSX.Element {
  return (
    <section class={`card ${name}`}>
      {title && <header>{typeof title === 'string' ? <h2>{title}</h2> : title}{actions && <div class="actions">{actions}</div>}</header>}
      {bare ? children : <div class="inside">{children}</div>}
    </section>
  );
}

interface FieldProps { label: string; note?: ComponentChildren; wrong?: string | null; class?: string; children: (attributes: { id: string; 'aria-describedby'?: string; 'aria-invalid'?: boolean }) => ComponentChildren }

export function Field({ label, note, wrong, class: name = '', children }: FieldProps): JSX.Element {
  const id = useId();
  const about = note || wrong ? `${id}-about` : undefined;
  return (
    <div class={`field ${name}`}>
      <label for={id}>{label}</label>
      {children({ id, 'aria-describedby': about, 'aria-invalid': wrong ? true : undefined })}
      {(wrong || note) && <p id={about} class={wrong ? 'wrong' : 'note'}>{wrong || note}</p>}
    </div>
  );
}

/** How much of something is used. */
export function Meter({ label, value, most, text, tone }: { label: string; value: number; most: number | null; text: string; tone?: string }): JSX.Element {
  const share = most && most > 0 ? Math.min(1, value / most) : 0;
  const shown = tone ?? (share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : '');
  return (
    <div class="metered">
      <div><span class="soft">{label}</span><span>{text}</span></div>
      <div class={`meter ${shown}`} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={most ?? Math.max(value, 1)} aria-valuenow={most ? Math.min(value, most) : value} aria-valuetext={text}>
        <i style={{ width: `${share * 100}%` }} />
      </div>
    </div>
  );
}
