// Owns a person at a browser: opens pages, waits for what must come, and remembers everything that went wrong on the way.
import axe from 'axe-core';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { launch } from '../dev/chromium.mjs';

let browser: Browser | null = null;

export async function openBrowser(): Promise<void> {
  browser ??= await launch();
}

export async function closeBrowser(): Promise<void> {
  await browser?.close();
  browser = null;
}

export interface Visitor { page: Page; complaints: string[]; requests: string[]; go(path: string): Promise<void>; leave(): Promise<void> }

export async function visit(base: string, path = '', options: BrowserContextOptions = {}): Promise<Visitor> {
  if (!browser) throw new Error('open the browser first');
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const complaints: string[] = [];
  const requests: string[] = [];
  page.on('console', (message) => { if (message.type() === 'error') complaints.push(message.text()); });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('request', (request) => requests.push(request.url()));
  await page.goto(`${base}/#/${path}`);
  return { page, complaints, requests, go: async (to) => { await page.goto(`${base}/#/${to}`); }, leave: () => context.close() };
}

/** Serious and critical findings of axe, as one line each. */
export async function findings(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const violations = await page.evaluate(async () => {
    const run = (window as unknown as { axe: { run(where: Document): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> } }).axe.run;
    return (await run(document)).violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map((node) => node.html) }));
  });
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).join(' ')}`);
}

/** How far the page is wider than its window. */
export function overhang(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
