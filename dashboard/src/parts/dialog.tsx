// Owns dialogs: the browser's own, so that focus, Escape and the rest of the page are taken care of.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { Icon } from './icons';
import { Problem } from './notices';

interface DialogProps { title: string; onClose: () => void; onSubmit?: () => Promise<unknown>; submit?: string; tone?: 'primary' | 'danger'; ready?: boolean; cancel?: string; children: ComponentChildren }

/** Open as long as it is there. With `onSubmit` it is a form that closes when that went well and shows the problem when not. */
export function Dialog({ title, onClose, onSubmit, submit = 'Save', tone = 'primary', ready = true, cancel = 'Cancel', children }: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);

  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    // Into the form, or, where something is lost, onto the way out.
    dialog?.querySelector<HTMLElement>(tone === 'danger' ? 'footer button' : '.body input, .body textarea, .body select')?.focus();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);

  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!onSubmit || busy || !ready) return;
    setBusy(true);
    setError(null);
    try {
      await onSubmit();
      onClose();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };

  return (
    <dialog ref={element} aria-labelledby={heading} onCancel={(event) => { event.preventDefault(); onClose(); }}>
      <form method="dialog" onSubmit={send} noValidate>
        <header>
          <h2 id={heading}>{title}</h2>
          <button type="button" class="icon" aria-label="Close" onClick={onClose}><Icon name="close" /></button>
        </header>
        <div class="body">
          {children}
          {error != null && <div class="gap-over"><Problem error={error} /></div>}
        </div>
        {onSubmit && (
          <footer>
            <button type="button" onClick={onClose}>{cancel}</button>
            <button type="submit" class={tone} disabled={busy || !ready}>{busy ? 'One moment…' : submit}</button>
          </footer>
        )}
      </form>
    </dialog>
  );
}
