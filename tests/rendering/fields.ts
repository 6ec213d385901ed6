// The options of fields that panels of the dashboards set, for `applyFieldOverrides`.
//
// Grafana registers them with their editors in its server's bundle; only how a value is taken
// over matters here.

import {
  type Field,
  FieldConfigOptionsRegistry,
  FieldType,
  booleanOverrideProcessor,
  dataLinksOverrideProcessor,
  displayNameOverrideProcessor,
  identityOverrideProcessor,
  numberOverrideProcessor,
  standardFieldConfigEditorRegistry,
  stringOverrideProcessor,
  thresholdsOverrideProcessor,
  unitOverrideProcessor,
  valueMappingsOverrideProcessor,
} from '@grafana/data';

const STANDARD: Record<string, any> = {
  color: identityOverrideProcessor,
  decimals: numberOverrideProcessor,
  description: stringOverrideProcessor,
  displayName: displayNameOverrideProcessor,
  links: dataLinksOverrideProcessor,
  mappings: valueMappingsOverrideProcessor,
  max: numberOverrideProcessor,
  min: numberOverrideProcessor,
  noValue: stringOverrideProcessor,
  thresholds: thresholdsOverrideProcessor,
  unit: unitOverrideProcessor,
  fieldMinMax: booleanOverrideProcessor,
};
const CUSTOM = [
  'align', 'axisPlacement', 'axisSoftMax', 'axisSoftMin', 'cellOptions', 'drawStyle',
  'fillOpacity', 'hideFrom', 'lineInterpolation', 'lineStyle', 'lineWidth', 'scaleDistribution',
  'showPoints', 'spanNulls', 'stacking', 'thresholdsStyle', 'width', 'minWidth',
];

const item = (id: string, path: string, process: any, isCustom: boolean): any => ({
  id, path, name: id, isCustom, process,
  override: () => null, editor: () => null, shouldApply: () => true, getItemsCount: () => 0,
});

// The time axis takes no label from the defaults; the others may name variables in it.
const axisLabel = {
  ...item('custom.axisLabel', 'axisLabel', stringOverrideProcessor, true),
  settings: { expandTemplateVars: true },
  shouldApply: (field: Field) => field.type === FieldType.number,
};

export function fieldOptions(): FieldConfigOptionsRegistry {
  const standard = Object.entries(STANDARD).map(([id, process]) => item(id, id, process, false));
  if (standardFieldConfigEditorRegistry.list().length === 0) {
    standard.forEach((one) => standardFieldConfigEditorRegistry.register(one));
  }
  const registry = new FieldConfigOptionsRegistry();
  standard.forEach((one) => registry.register(one));
  registry.register(axisLabel);
  CUSTOM.forEach((id) =>
    registry.register(item(`custom.${id}`, id, identityOverrideProcessor, true))
  );
  return registry;
}
