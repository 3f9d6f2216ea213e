// How the dashboard is built: one page, no inline code and no data: addresses, so that `default-src 'self'` holds.
import { defineConfig } from 'vite';

export default defineConfig({
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: { target: 'es2022', cssTarget: ['chrome123', 'firefox121', 'safari17.5'], assetsInlineLimit: 0, modulePreload: { polyfill: false }, cssCodeSplit: false, reportCompressedSize: true },
  test: { include: ['test/**/*.test.ts'], environment: 'node' },
} as Parameters<typeof defineConfig>[0]);
