// `npm run dev`: the dashboard with hot reload, in front of the hub named by RUNCUE_HUB, or of a fake hub with some life in it.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { createServer } from 'vite';
import { live } from './life.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
let hub = process.env.RUNCUE_HUB;
if (!hub) {
  hub = 'http://127.0.0.1:7879';
  const fake = spawn(process.execPath, [fileURLToPath(new URL('hub.mjs', import.meta.url)), '--port', '7879'], { stdio: 'inherit' });
  process.on('exit', () => fake.kill());
  fake.on('spawn', () => setTimeout(() => live(hub).catch((error) => console.error(error.message)), 500));
}
const vite = await createServer({ root, server: { port: 5173, proxy: { '/api': { target: hub, changeOrigin: true } } } });
await vite.listen();
vite.printUrls();
console.log(`  hub: ${hub}`);
