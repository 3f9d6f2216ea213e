// Sets the chosen theme before the first paint, so that the page does not flash. The switch itself is in src/theme.ts.
try {
  const theme = localStorage.getItem('runcue.theme');
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden: the system's theme holds.
}
