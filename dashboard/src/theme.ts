// Owns dark and light: the system's choice unless the switch was used. public/theme.js applies it before the first paint.
import { computed, signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';
const KEY = 'runcue.theme';
const dark = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(dark.matches);
dark.addEventListener('change', () => {
  systemDark.value = dark.matches;
});

function stored(): Theme {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === 'dark' || theme === 'light' ? theme : 'system';
  } catch {
    return 'system';
  }
}

export const theme = signal<Theme>(stored());
export const isDark = computed(() => (theme.value === 'system' ? systemDark.value : theme.value === 'dark'));

export function switchTheme(): void {
  // Two presses always come back: the first goes to the other one, the second to the system's again.
  const other: Theme = systemDark.value ? 'light' : 'dark';
  theme.value = theme.value === 'system' ? other : 'system';
  const root = document.documentElement;
  if (theme.value === 'system') delete root.dataset['theme'];
  else root.dataset['theme'] = theme.value;
  try {
    if (theme.value === 'system') localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme.value);
  } catch {
    // Storage may be forbidden: the choice lasts as long as the page.
  }
}
