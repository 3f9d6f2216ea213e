// A hub with tokens: logging in and out, what each role sees, making and revoking tokens.
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { Hub } from './hub';
import { closeBrowser, findings, openBrowser, visit } from './visitor';
import type { Visitor } from './visitor';

const SECRET = 'a-long-and-random-secret-of-the-tests-0123456789';
let hub: Hub;
beforeAll(async () => {
  await openBrowser();
  hub = await Hub.start(SECRET);
});
afterAll(async () => {
  await closeBrowser();
  await hub?.stop();
});

test('the first token of an open hub is seen by whoever makes it, and nobody else gets in any more', async () => {
  const open = await Hub.start();
  onTestFinished(() => open.stop());
  const maker = await visit(open.url, 'tokens');
  const { page } = maker;
  await page.getByRole('button', { name: 'New token' }).click();
  await page.getByLabel('Name').fill('first');
  expect(await page.getByRole('radio', { name: /^read/ }).isDisabled()).toBe(true);
  await page.getByRole('button', { name: 'Create token' }).click();
  const secret = (await page.locator('.secret code').textContent()) ?? '';
  expect(secret.length).toBeGreaterThan(20);
  await page.getByRole('button', { name: 'Revoke first' }).waitFor();
  const other = await visit(open.url, 'jobs');
  await other.page.getByRole('button', { name: 'Log in' }).waitFor();
  await logIn(other, secret);
  await other.page.getByRole('heading', { name: 'Jobs', exact: true }).waitFor();
  await other.leave();
  await maker.leave();
});

async function logIn(visitor: Visitor, token: string): Promise<void> {
  await visitor.page.getByLabel('Token').fill(token);
  await visitor.page.getByRole('button', { name: 'Log in' }).click();
}

test('a wrong token is refused with a reason, the right one opens the page that was asked for', async () => {
  const visitor = await visit(hub.url, 'groups');
  await visitor.page.getByRole('button', { name: 'Log in' }).waitFor();
  expect(await findings(visitor.page)).toEqual([]);
  await logIn(visitor, 'wrong');
  await visitor.page.locator('.problem').waitFor();
  await logIn(visitor, SECRET);
  await visitor.page.getByRole('heading', { name: 'Groups', exact: true }).waitFor();
  await visitor.page.reload();
  await visitor.page.getByRole('heading', { name: 'Groups', exact: true }).waitFor();
  await expect.poll(() => visitor.page.locator('.side .connection').textContent()).toBe('live');
  expect(await visitor.page.evaluate(() => document.cookie), 'scripts cannot read the cookie').toBe('');
  await visitor.page.getByRole('button', { name: 'Log out' }).click();
  await visitor.page.getByRole('button', { name: 'Log in' }).waitFor();
  await visitor.leave();
});

test('an admin makes a token that is shown once, and revokes it', async () => {
  const visitor = await visit(hub.url, 'tokens');
  await logIn(visitor, SECRET);
  const { page } = visitor;
  await page.getByRole('button', { name: 'New token' }).click();
  await page.getByLabel('Name').fill('laptop');
  await page.getByRole('radio', { name: /^read/ }).check();
  await page.getByRole('button', { name: 'Create token' }).click();
  const secret = (await page.locator('.secret code').textContent()) ?? '';
  expect(secret.length).toBeGreaterThan(20);
  await page.getByRole('button', { name: 'I have it' }).click();
  expect(await page.getByText(secret).count()).toBe(0);

  const reader = await visit(hub.url, 'jobs');
  await logIn(reader, secret);
  await reader.page.getByRole('heading', { name: 'Jobs', exact: true }).waitFor();
  expect(await reader.page.getByRole('link', { name: 'Tokens' }).count(), 'no page for admins').toBe(0);
  expect(await reader.page.getByRole('button', { name: 'Cancel all…' }).isDisabled()).toBe(true);
  expect(await reader.page.getByRole('link', { name: 'New job' }).count()).toBe(0);
  await reader.go('tokens');
  await reader.page.locator('.problem', { hasText: 'admin' }).waitFor();

  await page.getByRole('button', { name: 'Revoke laptop' }).click();
  await page.getByRole('button', { name: 'Revoke it' }).click();
  await expect.poll(() => page.getByRole('button', { name: 'Revoke laptop' }).count()).toBe(0);
  await reader.go('jobs');
  await reader.page.reload();
  await reader.page.getByRole('button', { name: 'Log in' }).waitFor();
  await reader.leave();
  await visitor.leave();
});
