// Owns the drawing of what a job waits for and what waits for it. Starts with the nearest and goes one step further on demand.
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import * as api from '../api';
import { plural } from '../format';
import { BOX, layOut } from '../graph';
import type { GraphJob } from '../graph';
import { href } from '../router';
import { attempt } from '../toasts';
import type { WholeJob } from '../types';
import { STATE_TONE } from './badges';
import { StateIcon } from './icons';
import { Card } from './layout';

/** One step further asks for at most this many jobs. */
const MOST_AT_ONCE = 20;

export function GraphCard({ job }: { job: WholeJob }): JSX.Element | null {
  const [further, setFurther] = useState<Map<string, GraphJob>>(new Map());
  const [busy, setBusy] = useState(false);
  useEffect(() => setFurther(new Map()), [job.id]);
  const drawing = useMemo(() => layOut(job.id, new Map([...further, [job.id, job]])), [job, further]);
  const relatives = job.prerequisites.length + job.dependents.length;
  const edge = drawing.nodes.filter((node) => node.id !== job.id && !further.has(node.id)).slice(0, MOST_AT_ONCE);
  if (relatives === 0) return null;

  const expand = async (): Promise<void> => {
    setBusy(true);
    await attempt(async () => {
      const found = await Promise.all(edge.map((node) => api.job(node.id)));
      setFurther(new Map([...further, ...found.map((one): [string, GraphJob] => [one.id, one])]));
    });
    setBusy(false);
  };
  const title = `${plural(job.prerequisites.length, 'prerequisite')}, ${plural(job.dependents.length, 'dependent')}`;
  return (
    <Card title="Dependencies" actions={<><span class="soft">{title}</span>{edge.length > 0 && <button type="button" class="small" disabled={busy} onClick={expand}>One step further</button>}</>}>
      <div class="graph" tabIndex={0} role="region" aria-label={`Dependency graph: ${title}`}>
        <svg class="drawing" width={drawing.width} height={drawing.height} viewBox={`0 0 ${drawing.width} ${drawing.height}`}>
          <defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="tip" d="M0 0l8 4-8 4z" /></marker></defs>
          {drawing.edges.map((one) => <path key={`${one.from}${one.to}`} class="edge" d={one.path} marker-end="url(#tip)" />)}
          {drawing.nodes.map((node) => (
            <a key={node.id} href={href(['jobs', node.id])} class={node.id === job.id ? 'here' : ''}>
              <rect x={node.x} y={node.y} width={BOX.width} height={BOX.height} rx="7" />
              <g class={`ink-${STATE_TONE[node.state]}`} transform={`translate(${node.x + 10} ${node.y + 14})`}><g class="glyph"><NodeIcon state={node.state} /></g></g>
              <text x={node.x + 34} y={node.y + 19}>{node.type.length > 18 ? `${node.type.slice(0, 17)}…` : node.type}</text>
              <text class="id" x={node.x + 34} y={node.y + 35}>…{node.id.slice(-6)} {node.state}</text>
              <title>{node.id}</title>
            </a>
          ))}
        </svg>
      </div>
      {drawing.hidden > 0 && <p class="faint">{plural(drawing.hidden, 'more job')} not drawn.</p>}
    </Card>
  );
}

function NodeIcon({ state }: { state: WholeJob['state'] }): JSX.Element {
  return <svg width="16" height="16" viewBox="0 0 16 16"><StateIcon state={state} /></svg>;
}
