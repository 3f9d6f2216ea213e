// The first page: how the hub is, at a glance; what needs somebody; charts of the last hour; what just happened.
import type { ComponentChildren, JSX } from 'preact';
import { signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import * as api from '../api';
import { now } from '../clock';
import { brief, count, errorText, plural, shortId, span, words } from '../format';
import { recent } from '../live';
import type { Chart, Line } from '../parts/chart';
import { Icon, StateIcon } from '../parts/icons';
import { Card, Head } from '../parts/layout';
import { Empty, Loaded, Words } from '../parts/notices';
import { Ago } from '../parts/time';
import { anyWork, useResource } from '../resource';
import { href } from '../router';
import { status } from '../status';
import type { HubEvent, Series, State, Status } from '../types';
import { eventTone } from '../eventwords';

/** uPlot is a third of all code and only this page draws with it: it comes after the page is there. */
const drawing = signal<typeof Chart | 'missing' | null>(null);

export function OverviewPage(): JSX.Element {
  useEffect(() => void import('../parts/chart').then((part) => { drawing.value = part.Chart; }, () => { drawing.value = 'missing'; }), []);
  const series = useResource('series', api.series, { on: anyWork, least: 2500, every: 5000 });
  return (
    <>
      <Head title="Overview" />
      <Loaded of={status}>{(data) => <Tiles status={data} />}</Loaded>
      <div class="glance">
        <div class="aside">
          <Loaded of={series}>{(data) => <Charts series={data} />}</Loaded>
          <Feed />
        </div>
        {status.data.value && <div class="aside"><Attention status={status.data.value} /><About status={status.data.value} /></div>}
      </div>
    </>
  );
}

function Tile({ state, name, value, more, to }: { state?: State; name: string; value: number | undefined; more?: ComponentChildren; to: string }): JSX.Element {
  return (
    <a class="tile" href={to}>
      <span class="what">{state && <StateIcon state={state} />}{name}</span>
      <span class="value" title={count(value ?? 0)}>{(value ?? 0) < 100_000 ? count(value ?? 0) : brief(value ?? 0)}</span>
      <span class="more">{more ?? '\u00a0'}</span>
    </a>
  );
}

function Tiles({ status }: { status: Status }): JSX.Element {
  const { counts } = status;
  const to = (state: string): string => href(['jobs'], { state });
  // What has no slots runs nothing: the hub's own entry.
  const alive = status.workers.filter((worker) => worker.alive !== false && worker.slots !== 0);
  const away = status.workers.filter((worker) => worker.alive === false && worker.slots !== 0).length;
  const held = alive.reduce((sum, worker) => sum + (worker.held ?? 0), 0);
  const slots = alive.reduce((sum, worker) => sum + (worker.slots ?? 0), 0);
  const waiting = [[status.ready, 'ready'], [status.delayed, 'later'], [status.blocked, 'blocked']].filter(([n]) => n).map(([n, word]) => `${brief(n as number)} ${word}`).join(', ');
  return (
    <div class="tiles">
      <Tile state="queued" name="Queued" value={counts.queued} more={waiting || 'nothing waits'} to={to('queued')} />
      <Tile state="running" name="Running" value={(counts.running ?? 0) + (counts.leased ?? 0)} more={slots ? `${held} of ${plural(slots, 'slot')} busy` : undefined} to={to('leased,running')} />
      <Tile state="completed" name="Completed" value={counts.completed} to={to('completed')} />
      <Tile state="failed" name="Failed" value={counts.failed} to={to('failed')} />
      <Tile state="quarantined" name="Quarantined" value={counts.quarantined} more={counts.quarantined ? 'waiting for somebody' : undefined} to="#/quarantine" />
      <Tile name="Workers" value={alive.length} more={away ? `${away} away` : undefined} to="#/fleet" />
    </div>
  );
}

/** Each line says what to do. Always there, so that nothing below it moves. */
function Attention({ status }: { status: Status }): JSX.Element {
  const lines: JSX.Element[] = [];
  const old = status.oldest_ready_at == null ? 0 : (now.value - status.oldest_ready_at) / 1000;
  if (status.hint) lines.push(<li key="hint"><Icon name="warning" /><span><Words text={status.hint} /></span></li>);
  if (status.ready > 0 && old > 300) lines.push(<li key="old"><Icon name="clock" /><span>The oldest job that could run has waited {span(Math.floor(old))}. <a href={href(['jobs'], { state: 'queued' })}>See what waits</a></span></li>);
  for (const service of status.blocked_services) {
    const name = typeof service === 'string' ? service : service.name;
    const state = typeof service === 'string' ? 'blocked' : service.status;
    // Full and rate limited are a service at work; they come and go.
    if (state !== 'full' && state !== 'rate_limited') lines.push(<li key={`service ${name}`}><Icon name="warning" /><span>Service <a href="#/services">{name}</a> is {words(state)}.</span></li>);
  }
  if (status.paused_groups.length) lines.push(<li key="groups"><Icon name="pause" /><span>Paused: {status.paused_groups.slice(0, 5).map((group) => group ?? 'jobs without a group').join(', ')}{status.paused_groups.length > 5 && ` and ${status.paused_groups.length - 5} more`}. <a href="#/groups">Resume under Groups</a></span></li>);
  return <Card class="attention" title="Worth a look">{lines.length ? <ul class="notice">{lines}</ul> : <p class="soft">Nothing needs you.</p>}</Card>;
}

function Charts({ series }: { series: Series }): JSX.Element {
  const { at, rate, depth, wait, run } = useMemo(() => chartLines(series), [series]);
  const perSecond = (value: number): string => brief(Math.round(value * 10) / 10);
  const seconds = (value: number): string => span(value).replace('.0 ', ' ');
  const Drawn = drawing.value;
  const draw = (about: string, lines: Line[], format: (value: number) => string): JSX.Element => {
    if (at.length < 2) return <p class="chart-later">Lines are drawn from {series.step * 3} s after the hub’s start.</p>;
    // The hub may be newer than this page: its files then have other names.
    if (Drawn === 'missing') return <p class="chart-later">The charts could not be loaded. Reload the page.</p>;
    return Drawn ? <Drawn title={about} at={at} lines={lines} format={format} /> : <p class="chart-later" />;
  };
  return (
    <div class="charts">
      <Card title="Throughput, jobs per second">{draw('Jobs per second', rate, perSecond)}</Card>
      <Card title="Queue depth">{draw('Jobs', depth, brief)}</Card>
      <Card title="Time waited">{draw('From submitted to started', wait, seconds)}</Card>
      <Card title="Time run">{draw('From started to ended', run, seconds)}</Card>
    </div>
  );
}

function chartLines(series: Series): { at: number[]; rate: Line[]; depth: Line[]; wait: Line[]; run: Line[] } {
  const { step } = series;
  // The latest point is not over yet: drawn, every line would fall at its end.
  const points = series.points.filter((point) => point.at + step * 1000 <= now.peek());
  const column = (name: keyof (typeof points)[number], by = 1): (number | null)[] => points.map((point) => (point[name] == null ? null : point[name]! / by));
  return {
    at: points.map((point) => point.at / 1000),
    rate: [
      { label: 'submitted', colour: 'accent', dash: true, values: column('submitted', step) },
      { label: 'completed', colour: 'good', fill: true, values: column('completed', step) },
      { label: 'failed', colour: 'bad', values: column('failed', step) },
    ],
    depth: [
      { label: 'queued', colour: 'accent', fill: true, values: column('queued') },
      { label: 'running', colour: 'run', dash: true, values: column('running') },
    ],
    wait: [
      { label: 'half below', colour: 'accent', fill: true, values: column('wait_p50') },
      { label: '95 % below', colour: 'warn', dash: true, values: column('wait_p95') },
    ],
    run: [
      { label: 'half below', colour: 'accent', fill: true, values: column('run_p50') },
      { label: '95 % below', colour: 'warn', dash: true, values: column('run_p95') },
    ],
  };
}

const FEED = 12;

function Feed(): JSX.Element {
  const events = recent.value.filter((event) => event.type !== 'work_progress').slice(0, FEED);
  return (
    <Card title="Just now" bare class="feed-card">
      {events.length === 0
        ? <div class="feed"><Empty title="Quiet" command="runcue add -- echo hello"><p>What happens shows here the moment it does. For example, from a shell:</p></Empty></div>
        : <ol class="feed">{events.map((event) => <FeedLine key={event.seq} event={event} />)}</ol>}
    </Card>
  );
}

function FeedLine({ event }: { event: HubEvent }): JSX.Element {
  const { tone, glyph, text } = eventTone(event);
  const about = event.job ? <><a href={href(['jobs', event.job])}>{event.task ?? shortId(event.job)}</a>{event.group && <span class="faint"> {event.group}</span>}{event.error && <span class="soft"> {errorText(event.error)}</span>}</> : <span>{event.service ?? event.group ?? event.queue ?? ''}{event.state && ` is ${words(event.state)}`}</span>;
  return (
    <li>
      <span><span class={`badge tone-${tone}`}>{glyph}{text}</span></span>
      <span class="cut">{about}</span>
      <span class="soft nowrap took">{event.took != null ? span(event.took) : ''}</span>
      <span class="faint right"><Ago at={event.at} /></span>
    </li>
  );
}

function About({ status }: { status: Status }): JSX.Element {
  return (
    <Card title="This hub">
      <dl class="facts">
        <dt>Store</dt><dd>{status.store}</dd>
        <dt>Durability</dt><dd>{status.durability}</dd>
        <dt>Version</dt><dd>{status.version}</dd>
        <dt>Events so far</dt><dd>{count(status.last_event)}</dd>
        <dt>Oldest ready job</dt><dd>{status.oldest_ready_at == null ? 'none waits' : <Ago at={status.oldest_ready_at} />}</dd>
      </dl>
    </Card>
  );
}
