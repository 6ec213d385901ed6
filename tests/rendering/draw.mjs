// node draw.mjs CHROMIUM GIVEN.json OUT.png [PANEL=OUT.png ...]
//
// Stands beside node_modules in a directory of its own: pictures.py puts it there.
// Draws one dashboard with its answers, prints what became of each panel as JSON, and exits
// with 1 when one was not drawn.

import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import puppeteer from 'puppeteer-core';

const here = dirname(fileURLToPath(import.meta.url));
const [chromium, givenPath, out, ...single] = process.argv.slice(2);
const given = await readFile(givenPath, 'utf8');
const modules = join(here, '..', 'node_modules');
const icons = join(modules, '@grafana/ui/dist/public');

const bundle = await build({
  entryPoints: [join(here, 'page.tsx')],
  bundle: true,
  write: false,
  outdir: 'out',
  format: 'iife',
  jsx: 'automatic',
  loader: { '.woff': 'dataurl', '.woff2': 'dataurl', '.svg': 'dataurl', '.png': 'dataurl', '.ttf': 'empty' },
  define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
  logLevel: 'error',
});
const files = Object.fromEntries(
  bundle.outputFiles.map((file) => [file.path.endsWith('.css') ? '/page.css' : '/page.js', file])
);
const html = `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/page.css">
<div id="page"></div><script>window.given = ${given.replaceAll('<', '\\u003c')}</script>
<script src="/page.js"></script>`;

const server = createServer(async (request, response) => {
  const path = normalize(new URL(request.url, 'http://localhost').pathname);
  try {
    if (path === '/') {
      response.setHeader('content-type', 'text/html').end(html);
    } else if (files[path]) {
      const type = path.endsWith('.css') ? 'text/css' : 'text/javascript';
      response.setHeader('content-type', type).end(files[path].text);
    } else if (path.includes('/img/icons/')) {
      const icon = await readFile(join(icons, path.slice(path.indexOf('/img/'))));
      response.setHeader('content-type', 'image/svg+xml').end(icon);
    } else {
      response.writeHead(404).end();
    }
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));

const browser = await puppeteer.launch({
  executablePath: chromium,
  args: [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync',
    '--disable-background-networking', '--disable-component-update', '--hide-scrollbars',
  ],
});
let failed = true;
try {
  const page = await browser.newPage();
  page.on('pageerror', (error) => console.error(`page: ${error.message}`));
  const missing = (answer) => !answer.ok() && /\/img\//.test(answer.url());
  page.on('response', (answer) => missing(answer) && console.error(`no ${answer.url()}`));
  await page.setViewport({ width: JSON.parse(given).width, height: 1000 });
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction('window.drawn', { timeout: 60_000 });
  const drawn = await page.evaluate('window.drawn');
  const height = await page.$eval('#dashboard', (element) => element.offsetHeight);
  await page.setViewport({ width: JSON.parse(given).width, height });
  await page.screenshot({ path: out });
  for (const wanted of single) {
    const [id, path] = wanted.split('=');
    await (await page.$(`#panel-${id}`)).screenshot({ path });
  }
  console.log(JSON.stringify(drawn));
  failed = Object.values(drawn).some((what) => what !== 'drawn');
} finally {
  await browser.close();
  server.close();
}
process.exit(failed ? 1 : 0);
