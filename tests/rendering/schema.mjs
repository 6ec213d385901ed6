// node schema.mjs DASHBOARD.json ...
//
// Checks dashboards against the types that Grafana publishes of its schema: of the dashboard,
// and of the options and the fields of each panel's type. Exits with 1 and says where it differs.

import { readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const here = dirname(fileURLToPath(import.meta.url));
const CONFIGS = {
  bargauge: 'BarGaugePanelCfg',
  stat: 'StatPanelCfg',
  table: 'TablePanelCfg',
  text: 'TextPanelCfg',
  timeseries: 'TimeSeriesPanelCfg',
};
// Those whose fields have options of their own.
const WITH_FIELDS = ['table', 'timeseries'];

const value = (json) => JSON.stringify(json, null, 1);
const files = new Map();
for (const path of process.argv.slice(2)) {
  const board = JSON.parse(await readFile(path, 'utf8'));
  // What an annotation asks, and how it is written, are options of its data source.
  for (const annotation of board.annotations.list) {
    for (const own of ['titleFormat', 'textFormat', 'tagKeys']) {
      delete annotation[own];
    }
    delete annotation.target.expr;
    delete annotation.target.interval;
  }
  const lines = [
    "import type { Dashboard } from '@grafana/schema';",
    ...Object.entries(CONFIGS).map(
      ([type, file]) =>
        `import type * as ${type} from '@grafana/schema/dist/esm/raw/composable/${type}/panelcfg/x/${file}_types.gen';`
    ),
    `export const board: Literal<Dashboard> = ${value(board)};`,
  ];
  for (const panel of board.panels.filter((one) => one.type !== 'row')) {
    if (!(panel.type in CONFIGS)) {
      throw new Error(`${path}: no type for panel ${panel.id}, a ${panel.type}`);
    }
    const options = `Partial<${panel.type}.Options>`;
    lines.push(`export const options${panel.id}: Literal<${options}> = ${value(panel.options)};`);
    if (WITH_FIELDS.includes(panel.type)) {
      const custom = `Partial<${panel.type}.FieldConfig>`;
      const fields = value(panel.fieldConfig.defaults.custom);
      lines.push(`export const custom${panel.id}: Literal<${custom}> = ${fields};`);
    }
  }
  // Enumerations are strings and numbers in JSON.
  lines.push(
    'type Literal<T> = T extends string ? `${T}` : T extends number ? number',
    '  : T extends boolean | null | undefined ? T',
    '  : T extends Array<infer I> ? Array<Literal<I>>',
    '  : T extends object ? { [K in keyof T]: Literal<T[K]> } : T;'
  );
  files.set(join(here, `${basename(path, '.json')}.schema.ts`), lines.join('\n'));
}

const options = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  target: ts.ScriptTarget.ES2022,
};
const host = ts.createCompilerHost(options);
const read = host.readFile.bind(host);
const exists = host.fileExists.bind(host);
const source = host.getSourceFile.bind(host);
host.readFile = (name) => files.get(name) ?? read(name);
host.fileExists = (name) => files.has(name) || exists(name);
host.getSourceFile = (name, version) =>
  files.has(name) ? ts.createSourceFile(name, files.get(name), version) : source(name, version);
const found = ts.getPreEmitDiagnostics(ts.createProgram([...files.keys()], options, host));
if (found.length) {
  console.error(ts.formatDiagnostics(found, { ...host, getNewLine: () => '\n' }));
}
process.exit(found.length ? 1 : 0);
