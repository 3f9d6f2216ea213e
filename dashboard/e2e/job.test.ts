// The page of one job, from waiting to its end; submitting, cancelling and retrying.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Hub } from './hub';
import { closeBrowser, openBrowser, visit } from './visitor';

let hub: Hub;
beforeAll(async () => {
  await openBrowser();
  hub = await Hub.start();
});
afterAll(async () => {
  await closeBrowser();
  await hub?.stop();
});

test('a job is followed from its first line to its result', async () => {
  const { id } = await hub.submit({ type: 'follow', target: 'me', params: { answer: 42 }, max_attempts: 3 });
  const { page, leave } = await visit(hub.url, `jobs/${id}`);
  await page.getByText('"answer"').waitFor();
  await page.getByRole('heading', { name: 'Why it waits', exact: true }).waitFor();
  const worker = hub.worker('w1');
  await worker.begin('follow');
  await page.locator('.titled .badge', { hasText: 'running' }).waitFor();
  await page.getByText('Attempt 1 began').waitFor();
  await worker.log(id, 'hello from the job\n');
  await page.getByText('hello from the job').waitFor();
  await worker.log(id, 'something is off\n', 'stderr');
  await page.locator('.log .stderr', { hasText: 'something is off' }).waitFor();
  await worker.beat(id, { percent: 70, message: 'nearly there' });
  await page.getByText('nearly there').waitFor();
  expect(await page.getByRole('progressbar', { name: 'Progress' }).getAttribute('aria-valuenow')).toBe('70');
  await worker.complete(id, { rows: 17 });
  await page.locator('.titled .badge', { hasText: 'completed' }).waitFor();
  await page.locator('.json', { hasText: '"rows": 17' }).waitFor();
  await page.locator('.log-state', { hasText: 'ended' }).waitFor();
  await page.locator('.story li', { hasText: 'Completed' }).getByText('on w1').waitFor();
  expect(await page.getByText('hello from the job').count()).toBe(1);
  await leave();
});

test('failures are told one by one, and a retry sends the job round again', async () => {
  const { id } = await hub.submit({ type: 'fragile', max_attempts: 1 });
  const worker = hub.worker('w2');
  await worker.begin('fragile');
  await worker.fail(id, 'disk on fire');
  const { page, leave } = await visit(hub.url, `jobs/${id}`);
  await page.locator('.story pre', { hasText: 'disk on fire' }).waitFor();
  await page.locator('.titled .badge', { hasText: 'quarantined' }).waitFor();
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.locator('.titled .badge', { hasText: 'queued' }).waitFor();
  expect((await hub.call('GET', `/api/jobs/${id}`)).state).toBe('queued');
  await leave();
});

test('a waiting job names its prerequisite, and the drawing leads there', async () => {
  const first = await hub.submit({ type: 'base' });
  const middle = await hub.submit({ type: 'middle', depends_on: [first.id] });
  const last = await hub.submit({ type: 'roof', depends_on: [middle.id] });
  const { page, leave } = await visit(hub.url, `jobs/${middle.id}`);
  await page.locator('.why').getByRole('link').first().waitFor();
  const nodes = page.locator('.graph svg.drawing > a');
  await expect.poll(() => nodes.count()).toBe(3);
  expect(await page.locator('.graph .edge').count()).toBe(2);
  const x = async (name: RegExp): Promise<number> => (await nodes.filter({ hasText: name }).boundingBox())!.x;
  expect(await x(/base/)).toBeLessThan(await x(/middle/));
  expect(await x(/middle/)).toBeLessThan(await x(/roof/));
  await page.goto(`${hub.url}/#/jobs/${first.id}`);
  await expect.poll(() => nodes.count()).toBe(2);
  await page.getByRole('button', { name: 'One step further' }).click();
  await expect.poll(() => nodes.count()).toBe(3);
  await nodes.filter({ hasText: /roof/ }).click();
  await page.getByRole('heading', { name: 'roof', exact: true }).waitFor();
  expect(page.url()).toContain(last.id);
  await leave();
});

test('cancelling with its dependents cancels them too', async () => {
  const first = await hub.submit({ type: 'parent' });
  const second = await hub.submit({ type: 'child', depends_on: [first.id] });
  const { page, leave } = await visit(hub.url, `jobs/${first.id}`);
  await page.getByRole('button', { name: 'Cancel…' }).click();
  await page.getByLabel('Also cancel the jobs that wait for it').check();
  await page.getByRole('button', { name: 'Cancel the job' }).click();
  await page.locator('.titled .badge', { hasText: 'cancelled' }).waitFor();
  await expect.poll(() => hub.call('GET', `/api/jobs/${second.id}`).then((job) => job.state)).toBe('cancelled');
  await leave();
});

test('a job is submitted from the form, wrong fields are named first', async () => {
  const { page, leave } = await visit(hub.url, 'new');
  await page.getByRole('button', { name: 'Submit job' }).click();
  await page.getByText('Name the task that runs it.').waitFor();
  await page.getByLabel('Type', { exact: true }).fill('typed');
  await page.getByLabel('Parameters').fill('{"a": ');
  await page.getByText(/^Not JSON/).waitFor();
  await page.getByLabel('Parameters').fill('{"a": 1}');
  await page.getByLabel('Target').fill('by hand');
  await page.getByLabel('Group').fill('people');
  await page.getByLabel('Not before').fill('2h');
  await page.getByRole('button', { name: 'Submit job' }).click();
  await page.getByRole('heading', { name: 'typed', level: 1 }).waitFor();
  const id = page.url().split('/').pop()!;
  const job = await hub.call('GET', `/api/jobs/${id}`);
  expect(job).toMatchObject({ type: 'typed', target: 'by hand', group: 'people', params: { a: 1 }, state: 'queued' });
  await page.locator('.why-card').getByText(/in 1 h 59 min|in 2 h/).waitFor();
  await page.getByRole('link', { name: 'Submit one like it' }).click();
  await expect.poll(() => page.getByLabel('Target').inputValue()).toBe('by hand');
  await leave();
});

test('what the hub refuses is shown with its message and its help', async () => {
  const { page, leave } = await visit(hub.url, 'new');
  await page.getByLabel('Type', { exact: true }).fill('typed');
  await page.getByText('Attempts, services, dependencies and the rest').click();
  await page.getByLabel('Waits for').fill('0'.repeat(32));
  await page.getByRole('button', { name: 'Submit job' }).click();
  const problem = page.locator('.problem');
  await problem.waitFor();
  expect(await problem.locator('p').count()).toBeGreaterThanOrEqual(1);
  expect(await problem.textContent()).toContain('0'.repeat(32));
  await leave();
});
