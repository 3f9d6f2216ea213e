// The only module that knows uPlot. Lines over time with a legend that shows the latest values, or those under the pointer.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { isDark } from '../theme';

export interface Line { label: string; colour: 'accent' | 'good' | 'bad' | 'run' | 'warn'; values: (number | null)[]; dash?: boolean; fill?: boolean }
interface ChartProps { title: string; at: number[]; lines: Line[]; format: (value: number) => string }

const HEIGHT = 172;

/** The colour as the browser resolved it; a canvas cannot read variables. */
function resolved(root: HTMLElement, name: string): string {
  const probe = root.querySelector(`.series-${name}`);
  return probe ? getComputedStyle(probe).color : 'gray';
}

/** Seconds only where minutes would say the same thing twice. */
function clockText(at: number, width: number): string {
  return new Date(at * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: width < 240 ? '2-digit' : undefined });
}

function faded(colour: string): string {
  return colour.replace(/^rgb\(([^)]*)\)$/, (_, parts: string) => `rgb(${parts.replaceAll(',', ' ')} / 0.12)`);
}

function build(root: HTMLElement, place: HTMLElement, { lines, at, format }: ChartProps, onCursor: (index: number | null) => void): uPlot {
  const axis = { stroke: resolved(root, 'axis'), font: '11px system-ui, sans-serif', grid: { stroke: resolved(root, 'grid'), width: 1 }, ticks: { show: false } };
  const series = lines.map((line): uPlot.Series => {
    const stroke = resolved(root, line.colour);
    return { label: line.label, stroke, width: 1.75, dash: line.dash ? [5, 4] : undefined, fill: line.fill ? faded(stroke) : undefined, points: { show: false }, spanGaps: true };
  });
  const options: uPlot.Options = {
    width: Math.max(place.clientWidth, 120),
    height: HEIGHT,
    padding: [10, 26, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: 'overview' }, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.12 : 1] } },
    axes: [
      { ...axis, size: 30, gap: 8, space: 72, values: (plot, splits) => splits.map((split) => clockText(split, (plot.scales['x']?.max ?? 0) - (plot.scales['x']?.min ?? 0))) },
      { ...axis, size: 52, gap: 6, space: 34, values: (_, splits) => splits.map(format) },
    ],
    series: [{}, ...series],
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
  };
  return new uPlot(options, [at, ...lines.map((line) => line.values)] as uPlot.AlignedData, place);
}

export function Chart(props: ChartProps): JSX.Element {
  const root = useRef<HTMLDivElement>(null);
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [under, setUnder] = useState<number | null>(null);
  const dark = isDark.value;
  const shape = props.lines.map((line) => line.label).join();

  useEffect(() => {
    if (!root.current || !place.current) return undefined;
    const own = build(root.current, place.current, props, setUnder);
    plot.current = own;
    const resize = new ResizeObserver(([entry]) => entry && entry.contentRect.width > 0 && own.setSize({ width: entry.contentRect.width, height: HEIGHT }));
    resize.observe(place.current);
    return () => {
      resize.disconnect();
      own.destroy();
      plot.current = null;
    };
  }, [dark, shape]);

  useEffect(() => {
    plot.current?.setData([props.at, ...props.lines.map((line) => line.values)] as uPlot.AlignedData);
  }, [props.at, props.lines]);

  const index = under ?? props.at.length - 1;
  const shown = (line: Line): string => {
    const value = line.values[index];
    return value == null ? '–' : props.format(value);
  };
  const summary = `${props.title}: ${props.lines.map((line) => `${line.label} ${shown(line)}`).join(', ')}`;
  return (
    <div ref={root}>
      <div class="legend">
        {props.lines.map((line) => (
          <span key={line.label}>
            <svg class={`series-${line.colour}`} viewBox="0 0 18 8" aria-hidden="true"><path d="M0 4h18" stroke="currentColor" stroke-width="2.5" stroke-dasharray={line.dash ? '5 3' : undefined} /></svg>
            {line.label} <b>{shown(line)}</b>
          </span>
        ))}
        <span class="series-axis" hidden /><span class="series-grid" hidden />
      </div>
      <div class="chart" ref={place} role="img" aria-label={summary} />
    </div>
  );
}
