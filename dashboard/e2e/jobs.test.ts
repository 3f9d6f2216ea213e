// The jobs page: live rows, filters, search, pages, picking, actions on many, and all of it by keys.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { Hub } from './hub';
import { closeBrowser, openBrowser, visit } from './visitor';
import type { Visitor } from './visitor';

let hub: Hub;
let visitor: Visitor;

beforeAll(openBrowser);
afterAll(closeBrowser);
beforeEach(async () => {
  hub = await Hub.start();
});
afterEach(async () => {
  await visitor?.leave();
  await hub.stop();
});

const rows = (): Promise<string[]> => visitor.page.$$eval('table.jobs tbody tr', (found) => found.map((row) => (row as HTMLElement).dataset['job'] ?? ''));
const stateOf = (id: string): Promise<string | null> => visitor.page.locator(`tr[data-job="${id}"] .badge`).textContent({ timeout: 2000 }).catch(() => null);

test('a job appears, runs and completes without a reload', async () => {
  visitor = await visit(hub.url, 'jobs');
  await visitor.page.getByText('No jobs yet').waitFor();
  const { id } = await hub.submit({ type: 'resize', target: 'photo' });
  await expect.poll(() => stateOf(id), { timeout: 8000 }).toBe('queued');
  const worker = hub.worker();
  await worker.begin('resize');
  await expect.poll(() => stateOf(id), { timeout: 8000 }).toBe('running');
  await worker.beat(id, { percent: 60, message: 'half of it' });
  await visitor.page.getByText('half of it').waitFor();
  await worker.complete(id, { width: 640 });
  await expect.poll(() => stateOf(id), { timeout: 8000 }).toBe('completed');
  await visitor.page.getByText('{"width":640}').waitFor();
});

test('filters, search and the address say the same', async () => {
  await hub.submitMany([{ type: 'resize', target: 'red' }, { type: 'resize', target: 'blue', group: 'g' }, { type: 'fetch', target: 'green' }]);
  visitor = await visit(hub.url, 'jobs');
  const { page } = visitor;
  await expect.poll(async () => (await rows()).length).toBe(3);
  await page.getByLabel('Type', { exact: true }).fill('resize');
  await expect.poll(async () => (await rows()).length).toBe(2);
  expect(page.url()).toContain('type=resize');
  await page.getByLabel('Search').fill('blue');
  await expect.poll(async () => (await rows()).length).toBe(1);
  await page.reload();
  await expect.poll(async () => (await rows()).length).toBe(1);
  expect(await page.getByLabel('Search').inputValue()).toBe('blue');
  await page.getByLabel('Search').fill('');
  await page.getByLabel('Type', { exact: true }).fill('');
  await page.getByRole('button', { name: /^failed/ }).click();
  await page.getByText('No job matches').waitFor();
  await page.getByRole('link', { name: 'Show all jobs' }).click();
  await expect.poll(async () => (await rows()).length).toBe(3);
});

test('pages lead to the last job and back, each job once, in the order of submission', async () => {
  const ids = await hub.submitMany(Array.from({ length: 130 }, (_, n) => ({ type: 'many', target: `n${n}` })));
  visitor = await visit(hub.url, 'jobs');
  const { page } = visitor;
  const seen: string[] = [];
  for (const expected of [50, 50, 30]) {
    await expect.poll(async () => { const now = await rows(); return now.length === expected && !seen.includes(now[0]!); }, { timeout: 8000 }).toBe(true);
    seen.push(...(await rows()));
    if (expected === 50) await page.getByRole('link', { name: 'Older' }).click();
  }
  expect(seen).toEqual([...ids].reverse());
  await page.getByText('Page 3').waitFor();
  await page.getByRole('link', { name: 'Newer' }).click();
  await expect.poll(async () => (await rows())[0]).toBe(seen[50]);
  await page.getByRole('link', { name: 'Newest' }).or(page.getByRole('link', { name: 'Newer' })).first().click();
  await expect.poll(async () => (await rows())[0]).toBe(seen[0]);
});

test('a search that has not looked at everything says so, and goes on', async () => {
  await hub.submit({ type: 'needle' });
  await hub.submitMany(Array.from({ length: 50_100 }, () => ({ type: 'hay' })));
  visitor = await visit(hub.url, 'jobs?q=needle');
  const { page } = visitor;
  await page.getByText('No match so far').waitFor();
  await page.getByRole('link', { name: 'Look further back' }).click();
  await page.locator('table.jobs tbody tr', { hasText: 'needle' }).waitFor();
});

test('an action on everything that matches says how many before it does it', async () => {
  await hub.submitMany([...Array.from({ length: 60 }, () => ({ type: 'doomed' })), ...Array.from({ length: 5 }, () => ({ type: 'kept' }))]);
  visitor = await visit(hub.url, 'jobs?type=doomed');
  const { page } = visitor;
  await page.getByRole('button', { name: 'Cancel all matching…' }).click();
  await page.locator('.bulk-count[data-count="60"]').waitFor();
  const count = (state: string): Promise<number> => hub.call('GET', '/api/status').then((status) => status.counts[state] ?? 0);
  expect(await count('cancelled'), 'a dry run changes nothing').toBe(0);
  await page.getByRole('button', { name: 'Cancel 60 jobs' }).click();
  await page.getByText('60 jobs cancelled.').waitFor();
  expect([await count('cancelled'), await count('queued')]).toEqual([60, 5]);
  await expect.poll(() => page.locator('tr .badge', { hasText: 'cancelled' }).count(), { timeout: 8000 }).toBe(50);
});

test('leaving the confirmation changes nothing', async () => {
  await hub.submit({ type: 'kept' });
  visitor = await visit(hub.url, 'jobs');
  await visitor.page.getByRole('button', { name: 'Cancel all…' }).click();
  await visitor.page.locator('.bulk-count[data-count="1"]').waitFor();
  await visitor.page.getByRole('button', { name: 'Leave them' }).click();
  await visitor.page.getByRole('dialog').waitFor({ state: 'detached' });
  expect((await hub.call('GET', '/api/status')).counts.queued).toBe(1);
});

test('picked jobs are cancelled, the others are not', async () => {
  const ids = await hub.submitMany([{ type: 'a' }, { type: 'b' }, { type: 'c' }]);
  visitor = await visit(hub.url, 'jobs');
  const { page } = visitor;
  await page.getByRole('checkbox', { name: /^Pick a / }).check();
  await page.getByRole('checkbox', { name: /^Pick c / }).check();
  await page.getByText('2 picked', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Cancel 2 picked…' }).click();
  await page.getByRole('button', { name: 'Cancel 2 jobs' }).click();
  await expect.poll(async () => Promise.all(ids.map((id) => hub.call('GET', `/api/jobs/${id}`).then((job) => job.state)))).toEqual(['cancelled', 'queued', 'cancelled']);
});

test('a search text does not steer an action on all jobs', async () => {
  await hub.submit({ type: 'a', target: 'moon' });
  visitor = await visit(hub.url, 'jobs?q=moon');
  await expect.poll(async () => (await rows()).length).toBe(1);
  expect(await visitor.page.getByRole('button', { name: 'Cancel all matching…' }).isDisabled()).toBe(true);
});

test('rows stay where they are while somebody reads, and the new ones are counted', async () => {
  const [first] = await hub.submitMany([{ type: 'old', target: 'first' }]);
  visitor = await visit(hub.url, 'jobs');
  const { page } = visitor;
  const row = page.locator(`tr[data-job="${first}"]`);
  await row.hover();
  await page.getByText('Held still while you read').waitFor();
  const before = await row.boundingBox();
  await hub.submitMany(Array.from({ length: 7 }, () => ({ type: 'new' })));
  await page.getByRole('button', { name: '7 new' }).waitFor();
  expect(await row.boundingBox()).toEqual(before);
  expect(await rows()).toEqual([first]);
  await page.getByRole('button', { name: '7 new' }).click();
  await page.mouse.move(5, 5);
  await expect.poll(async () => (await rows()).length).toBe(8);
});

test('everything goes by keys alone: search, walk, pick, cancel, open', async () => {
  const ids = await hub.submitMany([{ type: 'one' }, { type: 'two' }, { type: 'three' }]);
  visitor = await visit(hub.url, '');
  const { page } = visitor;
  await page.getByRole('heading', { name: 'Overview', exact: true }).waitFor();
  await page.keyboard.press('Tab');
  expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Skip to the content');
  await page.keyboard.press('Enter');
  expect(await page.evaluate(() => document.activeElement?.id)).toBe('main');
  await page.keyboard.press('/');
  await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute('type'))).toBe('search');
  await page.keyboard.type('two');
  await expect.poll(async () => (await rows()).length).toBe(1);
  await page.getByLabel('Search').fill('');
  await expect.poll(async () => (await rows()).length).toBe(3);
  await page.getByRole('checkbox', { name: 'Pick all jobs on this page' }).focus();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('x');
  await page.getByText('1 picked', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Cancel 1 picked…' }).focus();
  await page.keyboard.press('Enter');
  await page.locator('.bulk-count[data-count="1"]').waitFor();
  await page.getByRole('button', { name: 'Cancel 1 job' }).focus();
  await page.keyboard.press('Enter');
  await expect.poll(() => hub.call('GET', `/api/jobs/${ids[1]}`).then((job) => job.state)).toBe('cancelled');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  const state = (id: string) => page.locator(`tr[data-job="${id}"] .badge`, { hasText: 'cancelled' });
  await state(ids[1]!).waitFor();
  await page.locator(`tr[data-job="${ids[0]}"] a`).focus();
  // What changes on the page meanwhile takes nobody's place away.
  await hub.call('DELETE', `/api/jobs/${ids[2]}`);
  await state(ids[2]!).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'one', exact: true }).waitFor();
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('g');
  await page.keyboard.press('s');
  await page.getByRole('heading', { name: 'Services', exact: true }).waitFor();
});
