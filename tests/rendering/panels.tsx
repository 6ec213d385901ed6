// Each type of panel, drawn by the component that Grafana draws it with.

import { useMemo } from 'react';
import {
  type DataFrame,
  FieldType,
  type TimeRange,
  VizOrientation,
  getDisplayProcessor,
  getDisplayValueAlignmentFactors,
  getFieldDisplayValues,
  renderMarkdown,
} from '@grafana/data';
import { BarGauge, BigValue, TimeSeries, VizRepeater, useTheme2 } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

export interface Drawing {
  panel: any;
  frames: DataFrame[];
  timeRange: TimeRange;
  width: number;
  height: number;
  replace: (text: string) => string;
}

function values({ panel, frames, replace }: Drawing, theme: any, sparkline: boolean) {
  return getFieldDisplayValues({
    fieldConfig: panel.fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: replace,
    theme,
    data: frames,
    sparkline,
    timeZone: 'utc',
  });
}

function Stat(drawing: Drawing) {
  const theme = useTheme2();
  const { options } = drawing.panel;
  return (
    <VizRepeater
      getValues={() => values(drawing, theme, options.graphMode !== 'none')}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={({ value, width, height, count, alignmentFactors }: any) => (
        <BigValue
          value={value.display}
          count={count}
          sparkline={value.sparkline}
          colorMode={options.colorMode}
          graphMode={options.graphMode}
          justifyMode={options.justifyMode}
          textMode={options.textMode}
          alignmentFactors={alignmentFactors}
          text={options.text}
          disableWideLayout={!options.wideLayout}
          width={width}
          height={height}
          theme={theme}
        />
      )}
      width={drawing.width}
      height={drawing.height}
      source={drawing.frames}
      itemSpacing={3}
      renderCounter={1}
      autoGrid={true}
      orientation={options.orientation as VizOrientation}
    />
  );
}

function Bars(drawing: Drawing) {
  const theme = useTheme2();
  const { options } = drawing.panel;
  return (
    <VizRepeater
      getValues={() => values(drawing, theme, false)}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={({ value, width, height, orientation, count, alignmentFactors }: any) => (
        <BarGauge
          value={value.display}
          display={value.view?.getFieldDisplayProcessor(value.colIndex)}
          field={value.field}
          width={width}
          height={height}
          orientation={orientation}
          displayMode={options.displayMode}
          valueDisplayMode={options.valueMode}
          namePlacement={options.namePlacement}
          showUnfilled={options.showUnfilled}
          text={options.text}
          itemSpacing={8}
          lcdCellWidth={count > 1 ? 12 : 12}
          alignmentFactors={count > 1 ? alignmentFactors : undefined}
          theme={theme}
        />
      )}
      width={drawing.width}
      height={drawing.height}
      source={drawing.frames}
      itemSpacing={10}
      renderCounter={1}
      minVizWidth={options.minVizWidth}
      minVizHeight={options.minVizHeight}
      maxVizHeight={options.maxVizHeight}
      orientation={options.orientation as VizOrientation}
    />
  );
}

// A line has a gap where its value is no number, as in Grafana's own panel.
function finite(frames: DataFrame[]): DataFrame[] {
  const or = (value: number | null) => (Number.isFinite(value) ? value : null);
  return frames.map((frame) => ({
    ...frame,
    fields: frame.fields.map((field) =>
      field.type === FieldType.number ? { ...field, values: field.values.map(or) } : field
    ),
  }));
}

function Lines({ panel, frames, timeRange, width, height }: Drawing) {
  const drawn = useMemo(() => finite(frames), [frames]);
  return (
    <TimeSeries
      frames={drawn}
      structureRev={1}
      timeRange={timeRange}
      timeZone="utc"
      width={width}
      height={height}
      legend={panel.options.legend}
      options={panel.options}
    />
  );
}

function Table({ panel, frames, timeRange, width, height }: Drawing) {
  const theme = useTheme2();
  const frame = useMemo(() => {
    const [first] = frames;
    first.fields.forEach((field) => {
      field.display ??= getDisplayProcessor({ field, theme, timeZone: 'utc' });
    });
    return first;
  }, [frames, theme]);
  return (
    <TableNG
      data={frame}
      width={width}
      height={height}
      sortBy={panel.options.sortBy}
      cellHeight={panel.options.cellHeight}
      fieldConfig={panel.fieldConfig}
      timeRange={timeRange}
      structureRev={1}
      enableVirtualization={false}
    />
  );
}

function Text({ panel, replace }: Drawing) {
  const html = renderMarkdown(replace(panel.options.content));
  return <div className="markdown-html" dangerouslySetInnerHTML={{ __html: html }} />;
}

export const DRAWN: Record<string, (drawing: Drawing) => any> = {
  bargauge: Bars,
  stat: Stat,
  table: Table,
  text: Text,
  timeseries: Lines,
};
