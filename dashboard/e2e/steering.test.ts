// What people change from the dashboard: services, groups, queues, schedules, the quarantine, tokens. The hub is asked whether it holds.
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

const named = async (path: string, name: string): Promise<Record<string, unknown> | undefined> => {
  const answer = await hub.call('GET', path);
  return answer.find((one: { name: string }) => one.name === name);
};

test('a service is made, its limits are changed, it is paused and goes on', async () => {
  const { page, leave } = await visit(hub.url, 'services');
  await page.getByText('No services yet').waitFor();
  await page.getByRole('button', { name: 'New service' }).click();
  await page.getByLabel('Name').fill('images');
  await page.getByLabel('At once, at most', { exact: true }).fill('4');
  await page.getByRole('button', { name: 'Add a rate' }).click();
  await page.getByLabel('Rate 1: units').fill('120');
  await page.getByLabel('Rate 1: window').fill('1m');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('0 of 120').waitFor();
  expect(await named('/api/services', 'images')).toMatchObject({ max_concurrent: 4 });

  await page.getByRole('button', { name: 'Edit images' }).click();
  await page.getByLabel('At once, at most', { exact: true }).fill('many');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('A whole number from 1, or empty for no limit.').waitFor();
  await page.getByLabel('At once, at most', { exact: true }).fill('9');
  await page.getByLabel('Breaker opens after').fill('5');
  await page.getByLabel('and stays open for').fill('30s');
  await page.getByLabel('One key at once').fill('2');
  await page.getByRole('button', { name: 'Limit the rate of each key' }).click();
  await page.getByLabel('Key rate 1: units').fill('5');
  await page.getByLabel('Key rate 1: window').fill('1m');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('0 of 9').waitFor();
  const changed = await named('/api/services', 'images');
  expect(changed).toMatchObject({ max_concurrent: 9, circuit_threshold: 5, circuit_timeout: 30, per_key: { max_concurrent: 2, rates: [{ rate_limit: 5, rate_window: 60 }] } });
  await page.getByText('Each key: at most 2 jobs at once, 5 in 1 min.').waitFor();
  expect((changed?.['rates'] as { rate_limit: number; rate_window: number }[])[0]).toMatchObject({ rate_limit: 120, rate_window: 60 });

  await page.getByRole('button', { name: 'Pause images' }).click();
  await page.locator('.badge', { hasText: 'paused' }).waitFor();
  await page.getByRole('button', { name: 'Resume images' }).click();
  await page.locator('.badge', { hasText: 'ok' }).waitFor();
  await leave();
});

test('the gauge of a service follows the jobs that use it', async () => {
  await hub.call('PUT', '/api/services/gpu', { max_concurrent: 2 });
  const { page, leave } = await visit(hub.url, 'services');
  const gauge = page.locator('.card', { has: page.getByRole('heading', { name: 'gpu', exact: true }) }).getByRole('meter', { name: 'In use' });
  await gauge.waitFor();
  expect(await gauge.getAttribute('aria-valuenow')).toBe('0');
  const { id } = await hub.submit({ type: 'train', services: [{ service: 'gpu', units: 1 }] });
  const worker = hub.worker('trainer');
  await worker.begin('train');
  await expect.poll(() => gauge.getAttribute('aria-valuenow'), { timeout: 8000 }).toBe('1');
  await worker.complete(id, null);
  await expect.poll(() => gauge.getAttribute('aria-valuenow'), { timeout: 8000 }).toBe('0');
  await leave();
});

test('a group is paused, goes on, is retried and cancelled', async () => {
  const worker = hub.worker('grouper');
  const bad = await hub.submit({ type: 'grouped', group: 'night', max_attempts: 1 });
  await worker.begin('grouped');
  await worker.fail(bad.id, 'no');
  await hub.submit({ type: 'grouped', group: 'night' });
  const { page, leave } = await visit(hub.url, 'groups');
  await page.getByRole('button', { name: 'Pause night', exact: true }).click();
  await page.locator('tr[data-group="night"] .badge', { hasText: 'paused' }).waitFor();
  expect(await named('/api/groups', 'night')).toMatchObject({ paused: true });
  await page.getByRole('button', { name: 'Resume night', exact: true }).click();
  await expect.poll(async () => (await named('/api/groups', 'night'))?.['paused']).toBe(false);
  await page.getByRole('button', { name: 'Retry failed in night' }).click();
  await page.getByRole('button', { name: 'Retry 1 job' }).click();
  await expect.poll(() => hub.call('GET', `/api/jobs/${bad.id}`).then((job) => job.state)).toBe('queued');
  await page.getByRole('button', { name: 'Cancel all in night' }).click();
  await page.getByRole('button', { name: 'Cancel 2 jobs' }).click();
  await expect.poll(async () => (await named('/api/groups', 'night'))?.['counts']).toMatchObject({ cancelled: 2 });
  await leave();
});

test('a queue gets a limit', async () => {
  await hub.submit({ type: 'queued-somewhere' });
  const { page, leave } = await visit(hub.url, 'groups');
  await page.getByRole('button', { name: 'Edit queue default' }).click();
  await page.getByLabel('Jobs waiting, at most').fill('5000');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('5,000', { exact: true }).waitFor();
  expect(await named('/api/queues', 'default')).toMatchObject({ max_queued: 5000 });
  await leave();
});

test('a schedule is made, paused, goes on and is deleted', async () => {
  const { page, leave } = await visit(hub.url, 'schedules');
  await page.getByText('No schedules yet').waitFor();
  await page.getByRole('button', { name: 'New schedule' }).click();
  await page.getByLabel('Name').fill('nightly');
  await page.getByLabel('Cron').fill('nonsense');
  await page.getByLabel('Time zone').fill('UTC');
  await page.getByLabel('Type').fill('report');
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.locator('dialog .problem').waitFor();
  await page.getByLabel('Cron').fill('15 3 * * *');
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByText('15 3 * * *').waitFor();
  await page.getByRole('button', { name: 'Pause nightly' }).click();
  await page.locator('.badge', { hasText: 'paused' }).waitFor();
  expect(await named('/api/schedules', 'nightly')).toMatchObject({ paused: true, cron: '15 3 * * *' });
  await page.getByRole('button', { name: 'Resume nightly' }).click();
  await expect.poll(async () => (await named('/api/schedules', 'nightly'))?.['paused']).toBe(false);
  await page.getByRole('button', { name: 'Delete nightly' }).click();
  await page.getByRole('button', { name: 'Delete it' }).click();
  await page.getByText('No schedules yet').waitFor();
  expect(await hub.call('GET', '/api/schedules')).toEqual([]);
  await leave();
});

test('quarantined jobs are replayed: the picked one, then all', async () => {
  const worker = hub.worker('breaker');
  const ids: string[] = [];
  for (let n = 0; n < 3; n++) {
    ids.push((await hub.submit({ type: 'poison', target: `p${n}`, max_attempts: 1 })).id);
    await worker.begin('poison');
    await worker.fail(ids[n]!, `broken ${n}`);
  }
  const states = (): Promise<string[]> => Promise.all(ids.map((id) => hub.call('GET', `/api/jobs/${id}`).then((job) => job.state)));
  const { page, leave } = await visit(hub.url, 'quarantine');
  await page.getByText('broken 2').waitFor();
  await page.getByRole('checkbox', { name: 'Pick poison p1' }).check();
  await page.getByRole('button', { name: 'Replay picked…' }).click();
  await page.getByRole('button', { name: 'Replay 1 job' }).click();
  await expect.poll(states).toEqual(['quarantined', 'queued', 'quarantined']);
  await page.getByRole('button', { name: 'Replay all…' }).click();
  await page.getByRole('button', { name: 'Replay 2 jobs' }).click();
  await expect.poll(states).toEqual(['queued', 'queued', 'queued']);
  await page.getByText('Nothing is quarantined').waitFor();
  await leave();
});

test('a machine shows what it measures, and goes on living', async () => {
  await hub.call('POST', '/api/ingest/atlas', { name: 'atlas', cpu: 31, mem_used_gb: 3, mem_total_gb: 8, load1: 0.5 });
  const { page, leave } = await visit(hub.url, 'fleet');
  await page.getByText('31 %').waitFor();
  await hub.call('POST', '/api/ingest/atlas', { name: 'atlas', cpu: 77, mem_used_gb: 3, mem_total_gb: 8, load1: 0.5 });
  await page.getByText('77 %').waitFor();
  expect(await page.getByRole('img', { name: /^CPU, lately/ }).locator('path').count()).toBe(2);
  await leave();
});
