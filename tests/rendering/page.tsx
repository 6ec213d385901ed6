// One dashboard on a page: `window.given` in, panels in their places out.
//
// Data takes Grafana's way: frames, transformations, field overrides, component.

import { Component, type ReactNode, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { firstValueFrom } from 'rxjs';
import {
  type DataFrame,
  ThemeContext,
  applyFieldOverrides,
  cacheFieldDisplayNames,
  createTheme,
  dateTime,
  standardTransformers,
  standardTransformersRegistry,
  transformDataFrame,
} from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { GlobalStyles, PanelChrome, PortalContainer } from '@grafana/ui';
import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';
import '@fontsource/roboto-mono/400.css';
import { fieldOptions } from './fields';
import { type Answer, framesOf } from './frames';
import { DRAWN } from './panels';

interface Given {
  dashboard: any;
  answers: Record<string, Answer[]>;
  variables: Record<string, string>;
  from: number;
  to: number;
  steps: Record<string, number>;
  width: number;
  theme: 'light' | 'dark';
}

declare global {
  interface Window {
    given: Given;
    drawn?: Record<string, string>;
  }
}

const ROW = 30;
const GAP = 8;
const given = window.given;
const theme = createTheme({ colors: { mode: given.theme } });
const timeRange = {
  from: dateTime(given.from * 1000),
  to: dateTime(given.to * 1000),
  raw: { from: dateTime(given.from * 1000), to: dateTime(given.to * 1000) },
};
const registry = fieldOptions();
const drawn: Record<string, string> = {};

const replace = (text: string) =>
  text.replace(/\$\{?(\w+)(?::\w+)?\}?/g, (all, name) => given.variables[name] ?? all);

// What reaches the component: a panel whose transformation loses it all has no data.
function hasData(panel: any, frames: DataFrame[]): boolean {
  const fields = frames.flatMap((frame) => frame.fields);
  return panel.type === 'table'
    ? fields.some((field) => field.values.length > 0)
    : fields
        .filter((field) => field.type === 'number')
        .some((field) => field.values.some((one) => one !== null && !Number.isNaN(one)));
}

function place({ x, y, w, h }: any) {
  const column = (given.width - 2 * GAP - 23 * GAP) / 24;
  return {
    left: GAP + x * (column + GAP),
    top: y * (ROW + GAP),
    width: w * column + (w - 1) * GAP,
    height: h * ROW + (h - 1) * GAP,
  };
}

class Caught extends Component<{ id: number; children: ReactNode }> {
  state = { failed: false };
  static getDerivedStateFromError() {
    return { failed: true };
  }
  componentDidCatch(error: Error) {
    drawn[this.props.id] = `error: ${error.message}`;
  }
  render() {
    return this.state.failed ? 'failed' : this.props.children;
  }
}

async function prepared(panel: any): Promise<DataFrame[]> {
  const step = given.steps[panel.id];
  const frames = framesOf(given.answers[panel.id] ?? [], step);
  const context = { interpolate: replace };
  const transformed = await firstValueFrom(
    transformDataFrame(panel.transformations ?? [], frames, context)
  );
  const overridden = applyFieldOverrides({
    data: transformed,
    fieldConfig: panel.fieldConfig ?? { defaults: {}, overrides: [] },
    fieldConfigRegistry: registry,
    replaceVariables: replace as any,
    theme,
    timeZone: 'utc',
  });
  overridden.forEach((frame) => frame.fields.forEach((field) => delete field.state?.displayName));
  cacheFieldDisplayNames(overridden);
  return overridden;
}

function Panel({ panel }: { panel: any }) {
  const [frames, setFrames] = useState<DataFrame[]>();
  const box = place(panel.gridPos);
  useEffect(() => {
    prepared(panel).then(setFrames, (error) => (drawn[panel.id] = `error: ${error.message}`));
  }, [panel]);
  useEffect(() => {
    if (frames && !(panel.id in drawn)) {
      drawn[panel.id] = panel.type === 'text' || hasData(panel, frames) ? 'drawn' : 'no data';
    }
  }, [frames, panel]);
  const Drawn = DRAWN[panel.type];
  return (
    <div id={`panel-${panel.id}`} style={{ position: 'absolute', ...box }}>
      <PanelChrome
        title={replace(panel.title ?? '')}
        description={panel.description}
        width={box.width}
        height={box.height}
        padding={panel.type === 'table' ? 'none' : 'md'}
        hoverHeader={!panel.title}
      >
        {(width: number, height: number) =>
          frames && (
            <Caught id={panel.id}>
              {panel.type === 'text' || hasData(panel, frames) ? (
                <Drawn {...{ panel, frames, timeRange, width, height, replace }} />
              ) : (
                panel.fieldConfig.defaults.noValue || 'No data'
              )}
            </Caught>
          )
        }
      </PanelChrome>
    </div>
  );
}

function Row({ panel }: { panel: any }) {
  const box = place(panel.gridPos);
  return (
    <div style={{ position: 'absolute', ...box, ...theme.typography.h5, paddingTop: 6 }}>
      {replace(panel.title)}
    </div>
  );
}

function Page() {
  const panels: any[] = given.dashboard.panels;
  const bottom = Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  const wanted = panels.filter((panel) => panel.type !== 'row').length;
  useEffect(() => {
    const wait = setInterval(() => {
      if (Object.keys(drawn).length === wanted) {
        clearInterval(wait);
        setTimeout(() => (window.drawn = drawn), 500);
      }
    }, 50);
  }, [wanted]);
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div id="dashboard" style={{ position: 'relative', height: bottom * (ROW + GAP) + GAP }}>
        {panels.map((panel) =>
          panel.type === 'row' ? (
            <Row key={panel.id} panel={panel} />
          ) : (
            <Panel key={panel.id} panel={panel} />
          )
        )}
      </div>
      <PortalContainer />
    </ThemeContext.Provider>
  );
}

// Some are listed under two names.
const transformers = new Map<string, any>(
  Object.values(standardTransformers).map((one: any) => [one.id, one])
);
standardTransformersRegistry.setInit(() =>
  [...transformers].map(([id, transformation]) => ({
    id,
    name: transformation.name,
    transformation: () => Promise.resolve(transformation),
    editor: () => null,
  }) as any)
);
document.body.style.margin = '0';
document.body.style.background = theme.colors.background.canvas;
initPluginTranslations('grafana').then(() =>
  createRoot(document.getElementById('page')!).render(<Page />)
);
