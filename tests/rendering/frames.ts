// What Prometheus answered, as the frames that Grafana's Prometheus data source makes of it.

import { type DataFrame, FieldType, toDataFrame } from '@grafana/data';

export interface Series {
  metric: Record<string, string>;
  values?: Array<[number, string]>;
  value?: [number, string];
}

export interface Target {
  refId: string;
  format?: string;
  instant?: boolean;
  legendFormat?: string;
}

export interface Answer {
  target: Target;
  result: Series[];
}

const number = (text: string) =>
  text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : text === 'NaN' ? NaN : Number(text);

function legend(target: Target, metric: Record<string, string>): string | undefined {
  if (!target.legendFormat || target.legendFormat === '__auto') {
    return undefined;
  }
  return target.legendFormat.replace(/\{\{\s*(.+?)\s*\}\}/g, (_, label) => metric[label] ?? '');
}

function seriesFrame(target: Target, series: Series): DataFrame {
  const points = series.values ?? (series.value ? [series.value] : []);
  const { __name__, ...labels } = series.metric;
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: points.map(([at]) => at * 1000), config: {} },
      {
        name: 'Value',
        type: FieldType.number,
        values: points.map(([, value]) => number(value)),
        labels,
        config: { displayNameFromDS: legend(target, series.metric) },
      },
    ],
  });
}

function tableFrame(target: Target, result: Series[], several: boolean): DataFrame {
  const labels = [...new Set(result.flatMap((series) => Object.keys(series.metric)))]
    .filter((label) => label !== '__name__')
    .sort();
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: result.map((s) => s.value![0] * 1000) },
      ...labels.map((label) => ({
        name: label,
        type: FieldType.string,
        values: result.map((s) => s.metric[label] ?? ''),
      })),
      {
        name: several ? `Value #${target.refId}` : 'Value',
        type: FieldType.number,
        values: result.map((s) => number(s.value![1])),
      },
    ],
  });
}

// Points that Prometheus left out break a line, as they do in Grafana: it fills the steps.
function filled(frame: DataFrame, step: number): DataFrame {
  const [time, value] = frame.fields;
  const at: number[] = [];
  const values: Array<number | null> = [];
  time.values.forEach((moment: number, index: number) => {
    const before = time.values[index - 1];
    if (index > 0 && moment - before > step * 1500) {
      at.push(before + step * 1000);
      values.push(null);
    }
    at.push(moment);
    values.push(value.values[index]);
  });
  return { ...frame, length: at.length, fields: [{ ...time, values: at }, { ...value, values }] };
}

export function framesOf(answers: Answer[], step: number): DataFrame[] {
  return answers.flatMap(({ target, result }) => {
    if (target.format === 'table') {
      return [tableFrame(target, result, answers.length > 1)];
    }
    return result.map((series) => {
      const frame = seriesFrame(target, series);
      return target.instant ? frame : filled(frame, step);
    });
  });
}
