// Serves the built dashboard in front of a hub that was built without it, and passes everything under /api on. A development tool.
import { createServer, request as ask } from 'node:http';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { extname, join, normalize } from 'node:path';

const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

export function startFront(hub, dist, port) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://front');
    if (pathname.startsWith('/api/')) return pass(hub, request, response);
    const file = join(dist, normalize(pathname === '/' ? '/index.html' : pathname));
    if (!existsSync(file) || !statSync(file).isFile()) return response.writeHead(404).end();
    response.writeHead(200, { 'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream', 'Content-Security-Policy': "default-src 'self'" });
    return response.end(readFileSync(file));
  });
  return new Promise((done) => server.listen(port, '127.0.0.1', () => done({ url: `http://127.0.0.1:${server.address().port}`, stop: () => { server.closeAllConnections(); server.close(); } })));
}

/** The hub sees its own host and origin, as if the page came from it. */
function pass(hub, request, response) {
  const { host } = new URL(hub);
  const headers = { ...request.headers, host, ...(request.headers.origin && { origin: hub }) };
  const upstream = ask(hub + request.url, { method: request.method, headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
    answer.on('error', () => response.destroy());
  });
  upstream.on('error', () => response.destroy());
  response.on('close', () => upstream.destroy());
  request.pipe(upstream);
}
