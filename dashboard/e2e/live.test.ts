// An open page while the hub restarts, and under a flood of events.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { Hub } from './hub';
import { closeBrowser, openBrowser, visit } from './visitor';

let hub: Hub;
beforeAll(openBrowser);
afterAll(closeBrowser);
beforeEach(async () => {
  hub = await Hub.start();
});
afterEach(() => hub.stop());

test('a restart of the hub is shown, survived and caught up with', async () => {
  const { id } = await hub.submit({ type: 'before', target: 'old' });
  const { page, requests, leave } = await visit(hub.url, 'jobs');
  const badge = (job: string): Promise<string | null> => page.locator(`tr[data-job="${job}"] .badge`).textContent({ timeout: 1000 }).catch(() => null);
  await expect.poll(() => page.locator('.side .connection').textContent()).toBe('live');
  await expect.poll(() => badge(id)).toBe('queued');
  const top = await page.locator('table.jobs').boundingBox();

  await hub.kill();
  await page.locator('.banner', { hasText: 'Offline' }).waitFor();
  await expect.poll(() => page.locator('.side .connection').textContent()).toBe('offline');
  expect(await badge(id), 'what was known stays readable').toBe('queued');

  await hub.restart();
  const worker = hub.worker();
  await worker.begin('before');
  await worker.complete(id, 'done');
  const late = await hub.submit({ type: 'after' });
  await expect.poll(() => page.locator('.side .connection').textContent(), { timeout: 20_000 }).toBe('live');
  await page.locator('.banner').waitFor({ state: 'detached' });
  await expect.poll(() => badge(id), { timeout: 8000 }).toBe('completed');
  await expect.poll(() => badge(late.id), { timeout: 8000 }).toBe('queued');
  expect((await page.locator('table.jobs').boundingBox())?.y, 'nothing moved').toBe(top?.y);
  const streams = requests.filter((url) => url.includes('/api/events'));
  const resumed = Number(new URL(streams.at(-1)!).searchParams.get('after'));
  expect(streams.length).toBeGreaterThan(1);
  expect(resumed, 'it goes on after the last event it saw').toBeGreaterThan(0);
  await leave();
});

test('output is followed across a restart, each line once', async () => {
  const { id } = await hub.submit({ type: 'chatty' });
  const worker = hub.worker();
  await worker.begin('chatty');
  await worker.log(id, 'line one\n');
  const { page, leave } = await visit(hub.url, `jobs/${id}`);
  await page.getByText('line one').waitFor();
  await hub.kill();
  await page.locator('.log-state', { hasText: 'not connected' }).waitFor();
  await hub.restart();
  await worker.log(id, 'line two\n');
  await page.getByText('line two').waitFor({ timeout: 20_000 });
  expect(await page.locator('.log span', { hasText: 'line one' }).count()).toBe(1);
  await leave();
});

test('hundreds of events a second leave the page usable, bounded and right', async () => {
  const ids = await hub.submitMany(Array.from({ length: 200 }, (_, n) => ({ type: 'flood', target: `f${n}` })));
  const { page, complaints, leave } = await visit(hub.url, 'jobs');
  await expect.poll(() => page.locator('table.jobs tbody tr').count()).toBe(50);
  const worker = hub.worker();
  let flooding = true;
  const flood = (async () => {
    const held: string[] = [];
    for (let n = 0; n < 60; n++) held.push((await worker.begin('flood')).id);
    for (let round = 1; round <= 10; round++) await Promise.all(held.map((id) => worker.beat(id, { percent: round * 10, message: `round ${round}` })));
    await Promise.all(held.map((id) => worker.complete(id, { ok: true })));
    flooding = false;
    return held;
  })();
  let clicks = 0;
  while (flooding) {
    await page.getByRole('button', { name: /^queued/ }).click();
    await page.getByRole('button', { name: 'all', exact: true }).click();
    clicks++;
  }
  const done = await flood;
  expect(clicks, 'it answers while the flood goes on').toBeGreaterThan(0);
  expect(await page.locator('table.jobs tbody tr').count()).toBeLessThanOrEqual(50);
  await page.goto(`${hub.url}/#/jobs?state=completed`);
  await expect.poll(() => page.locator('tr .badge', { hasText: 'completed' }).count(), { timeout: 8000 }).toBe(50);
  await page.getByRole('link', { name: 'Older' }).click();
  await expect.poll(() => page.locator('tr .badge', { hasText: 'completed' }).count(), { timeout: 8000 }).toBe(done.length - 50);
  await page.goto(`${hub.url}/#/`);
  await expect.poll(() => page.locator('.tile', { hasText: 'Completed' }).locator('.value').textContent()).toBe(String(done.length));
  expect(await page.locator('.feed li').count()).toBeLessThanOrEqual(12);
  expect(ids).toHaveLength(200);
  expect(complaints).toEqual([]);
  await leave();
});

test('nothing on a page moves while it updates', async () => {
  await hub.call('PUT', '/api/services/api', { max_concurrent: 5, rates: [{ rate_limit: 1000, rate_window: 60 }] });
  const worker = hub.worker();
  for (const path of ['', 'services', 'groups', 'fleet', 'jobs']) {
    await hub.submitMany(Array.from({ length: 60 }, () => ({ type: 'steady', group: 'g', services: [{ service: 'api', units: 1 }] })));
    const { page, leave } = await visit(hub.url, path, { viewport: { width: 1280, height: 1600 } });
    await page.locator('main h1').waitFor();
    await expect.poll(() => page.locator('.loading').count()).toBe(0);
    const steady = page.locator('.card > header, .tile, th');
    const places = (): Promise<string> => steady.evaluateAll((all) => all.map((one) => { const { x, y, width } = one.getBoundingClientRect(); return [x, y, width].map(Math.round).join(); }).join(' '));
    await worker.begin('steady').then((job) => worker.complete(job.id, 1));
    await expect.poll(() => page.locator('.side .connection').textContent()).toBe('live');
    const before = await places();
    for (let n = 0; n < 3; n++) {
      const refreshed = page.waitForResponse((answer) => answer.url().includes('/api/') && !answer.url().includes('/api/events') && answer.ok());
      await worker.begin('steady').then((job) => worker.complete(job.id, { n }));
      await refreshed;
    }
    expect(await places(), `on ${path || 'overview'}`).toBe(before);
    await leave();
  }
});

test('the charts draw what happens, and go on', async () => {
  await hub.submitMany(Array.from({ length: 5 }, () => ({ type: 'charted' })));
  const { page, complaints, leave } = await visit(hub.url, '');
  const depth = page.getByRole('img', { name: /^Jobs: queued/ });
  await depth.waitFor({ timeout: 60_000 });
  await expect.poll(() => page.locator('.charts canvas').count()).toBe(4);
  await expect.poll(() => depth.getAttribute('aria-label'), { timeout: 30_000 }).toBe('Jobs: queued 5, running 0');
  const drawn = await depth.locator('canvas').evaluate((canvas: HTMLCanvasElement) => {
    const pixels = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height).data;
    return pixels.some((value) => value !== 0);
  });
  expect(drawn).toBe(true);
  await hub.worker().begin('charted');
  await expect.poll(() => depth.getAttribute('aria-label'), { timeout: 30_000 }).toBe('Jobs: queued 4, running 1');
  expect(complaints).toEqual([]);
  await leave();
}, 150_000);
