// Owns the keys that work everywhere: single keys, and g followed by a letter. Silent while somebody types or a dialog is open.

export interface Shortcut { keys: string; text: string; run: () => void }

export function startShortcuts(list: () => Shortcut[]): () => void {
  let first = '';
  let timer: ReturnType<typeof setTimeout> | undefined;
  const onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target;
    if (target instanceof Element && target.closest('input:not([type=checkbox]), textarea, select, dialog, [contenteditable]')) return;
    const keys = first ? `${first} ${event.key}` : event.key;
    clearTimeout(timer);
    first = '';
    const found = list().find((shortcut) => shortcut.keys === keys);
    if (found) {
      event.preventDefault();
      found.run();
    } else if (event.key === 'g') {
      first = 'g';
      timer = setTimeout(() => { first = ''; }, 1200);
    }
  };
  window.addEventListener('keydown', onKey);
  return () => window.removeEventListener('keydown', onKey);
}
