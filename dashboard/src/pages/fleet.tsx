// The fleet page: a card per machine with what it measures about itself, and the workers with what they hold.
import type { JSX } from 'preact';
import * as api from '../api';
import { count, gigabytes, percent, plural, span } from '../format';
import { AliveBadge } from '../parts/badges';
import { Bounded } from '../parts/bounded';
import { Card, Head, Meter } from '../parts/layout';
import { Empty, Loaded } from '../parts/notices';
import { Spark } from '../parts/spark';
import { Ago } from '../parts/time';
import { anyWork, useResource } from '../resource';
import { href } from '../router';
import type { Metrics, Node, Worker } from '../types';

export function FleetPage(): JSX.Element {
  const fleet = useResource('fleet', api.fleet, { on: anyWork, least: 2000, every: 3000 });
  const workers = useResource('workers', api.workers, { on: anyWork, least: 2000, every: 5000 });
  return (
    <>
      <Head title="Fleet" />
      <Loaded of={fleet}>
        {(nodes) => nodes.filter(reports).length === 0
          ? <Card><Empty title="No machine reports yet" command={`runcue worker --hub ${location.origin}`}><p>A worker on any machine pushes its measurements here, also from behind a firewall.</p></Empty></Card>
          : <Bounded items={nodes.filter(reports)}>{(shown) => <div class="cards">{shown.map((node) => <NodeCard key={node.node} node={node} />)}</div>}</Bounded>}
      </Loaded>
      <div class="section"><h2>Workers</h2></div>
      <Card bare>
        <Loaded of={workers}>
          {(list) => list.filter(works).length === 0
            ? <Empty title="No workers" command={`runcue worker --jobs 4 --hub ${location.origin}`}><p>Jobs wait until a worker takes them. Start one here, or on another machine.</p></Empty>
            : <Bounded items={sorted(list.filter(works))}>{(shown) => <WorkerTable workers={shown} />}</Bounded>}
        </Loaded>
      </Card>
    </>
  );
}

/** What has no slots runs nothing: the hub's own entry. */
const works = (worker: Worker): boolean => worker.slots !== 0;
const reports = (node: Node): boolean => node.latest !== null || (node.workers ?? []).some((worker) => typeof worker === 'string' || works(worker));

function NodeCard({ node }: { node: Node }): JSX.Element {
  const name = node.name ?? node.node;
  const history = node.history ?? [];
  const latest = node.latest;
  const jobs = typeof node.active_jobs === 'number' ? node.active_jobs : node.active_jobs?.length ?? 0;
  const column = (field: keyof Metrics): (number | null | undefined)[] => history.map((one) => one[field]);
  const workers = node.workers?.length ?? 0;
  return (
    <Card class={node.online ? 'node' : 'node away'} title={<><h2 class="cut" title={node.node}>{name}</h2><AliveBadge alive={node.online} /></>} actions={<a href={href(['jobs'], { state: 'leased,running' })}>{plural(jobs, 'active job')}</a>}>
      {latest === null ? <p class="soft">It has not measured anything yet.</p> : (
        <div class="stack">
          <div class="numbers">
            <Measure name="CPU" text={percent(latest.cpu)} values={column('cpu')} most={100} />
            <Measure name="Memory" text={latest.mem_used_gb == null ? '–' : `${gigabytes(latest.mem_used_gb).replace(/ GB$/, '')} of ${gigabytes(latest.mem_total_gb)}`} values={column('mem_used_gb')} most={latest.mem_total_gb} />
            <Measure name="Load" text={latest.load1 == null ? '–' : latest.load1.toFixed(2)} values={column('load1')} />
            <div>{latest.disk_total_gb != null && latest.disk_used_gb != null && <Meter label="Disk" value={latest.disk_used_gb} most={latest.disk_total_gb} text={`${percent((100 * latest.disk_used_gb) / latest.disk_total_gb)}`} />}
              <p class="faint small-print node-more">{latest.uptime != null && `up ${span(latest.uptime)}`}</p></div>
          </div>
          <p class="faint small-print">{plural(workers, 'worker')}, heard of <Ago at={node.seen_at} /></p>
        </div>
      )}
    </Card>
  );
}

function Measure({ name, text, values, most }: { name: string; text: string; values: (number | null | undefined)[]; most?: number | null }): JSX.Element {
  return (
    <div class="measure">
      <p class="measure-line"><span class="soft">{name}</span><span>{text}</span></p>
      <Spark values={values} most={most} label={`${name}, lately: now ${text}`} />
    </div>
  );
}

/** Those that live first, then by name. */
function sorted(workers: Worker[]): Worker[] {
  return workers.sort((a, b) => Number(b.alive) - Number(a.alive) || (a.name ?? a.worker_id).localeCompare(b.name ?? b.worker_id));
}

function WorkerTable({ workers }: { workers: Worker[] }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Workers">
      <table class="stacked steady pairs">
        <thead><tr><th scope="col">Worker</th><th scope="col" class="w-state">State</th><th scope="col" class="right w-num">Busy</th><th scope="col" class="w-mid">Machine</th><th scope="col">Tags</th><th scope="col" class="right w-time">Started</th><th scope="col" class="right w-time">Heard of</th></tr></thead>
        <tbody>
          {workers.map((worker) => (
            <tr key={`${worker.worker_id} ${worker.instance ?? ''}`}>
              <td><span class="titled"><strong title={worker.worker_id}>{worker.name ?? worker.worker_id}</strong>{worker.name && worker.name !== worker.worker_id && <span class="faint mono">{worker.worker_id}</span>}</span></td>
              <td><AliveBadge alive={worker.alive} /></td>
              <td class="right" data-label="Busy">{count(worker.held)}{worker.slots != null && <span class="faint"> of {count(worker.slots)}</span>}</td>
              <td data-label="Machine" class="soft">{[worker.cores ? `${worker.cores} cores` : '', worker.ram_gb ? gigabytes(worker.ram_gb) : ''].filter(Boolean).join(', ') || '–'}</td>
              <td data-label="Tags"><span class="tags">{(worker.tags ?? []).map((tag) => <span key={tag} class="tag">{tag}</span>)}</span></td>
              <td class="right" data-label="Started"><Ago at={worker.started_at} /></td>
              <td class="right" data-label="Heard of"><Ago at={worker.seen_at} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
