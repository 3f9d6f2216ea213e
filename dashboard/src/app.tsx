// The frame: which page is shown, the navigation, the state of the connection, messages, and the keys.
import type { JSX } from 'preact';
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { now } from './clock';
import { brief } from './format';
import { connection, startLive, stopLive, tryNow } from './live';
import { FleetPage } from './pages/fleet';
import { GroupsPage } from './pages/groups';
import { JobPage } from './pages/job';
import { JobsPage } from './pages/jobs';
import { LoginPage } from './pages/login';
import { NewJobPage } from './pages/newjob';
import { OverviewPage } from './pages/overview';
import { QuarantinePage } from './pages/quarantine';
import { SchedulesPage } from './pages/schedules';
import { ServicesPage } from './pages/services';
import { TokensPage } from './pages/tokens';
import { Dialog } from './parts/dialog';
import { Icon, Mark } from './parts/icons';
import { Card } from './parts/layout';
import { Empty, Problem, Words } from './parts/notices';
import { useKept } from './resource';
import { go, route } from './router';
import type { Route } from './router';
import { askWho, logout, may, startError, who } from './who';
import { startShortcuts } from './shortcuts';
import type { Shortcut } from './shortcuts';
import { status } from './status';
import { isDark, switchTheme } from './theme';
import { attempt, dismiss, toasts } from './toasts';

interface Place { path: string; text: string; key: string; apart?: boolean; admin?: boolean }
const PLACES: Place[] = [
  { path: '', text: 'Overview', key: 'o' },
  { path: 'jobs', text: 'Jobs', key: 'j' },
  { path: 'quarantine', text: 'Quarantine', key: 'q' },
  { path: 'groups', text: 'Groups', key: 'g', apart: true },
  { path: 'services', text: 'Services', key: 's' },
  { path: 'schedules', text: 'Schedules', key: 'c' },
  { path: 'fleet', text: 'Fleet', key: 'f' },
  { path: 'tokens', text: 'Tokens', key: 't', apart: true, admin: true },
];

function page({ path }: Route): JSX.Element {
  const [first = '', second] = path;
  switch (first) {
    case '': return <OverviewPage />;
    case 'jobs': return second ? <JobPage key={second} id={second} /> : <JobsPage />;
    case 'new': return <NewJobPage />;
    case 'quarantine': return <QuarantinePage />;
    case 'groups': return <GroupsPage />;
    case 'services': return <ServicesPage />;
    case 'schedules': return <SchedulesPage />;
    case 'fleet': return <FleetPage />;
    case 'tokens': return <TokensPage />;
    default: return <Card><Empty title="There is no such page"><a class="button" href="#/">To the overview</a></Empty></Card>;
  }
}

export function App(): JSX.Element {
  const me = who.value;
  if (me === undefined) return <Starting />;
  if (me === null) return <LoginPage />;
  return <Frame />;
}

/** Before it is known who looks: the hub may be starting too. */
function Starting(): JSX.Element {
  const error = startError.value;
  useEffect(() => {
    if (error == null) return undefined;
    const timer = setTimeout(() => void askWho(), 2000);
    return () => clearTimeout(timer);
  }, [error]);
  return <main class="login" id="main">{error != null ? <Problem error={error} /> : <p class="loading" role="status">Loading…</p>}</main>;
}

function Frame(): JSX.Element {
  const open = useSignal(false);
  const helping = useSignal(false);
  const main = useRef<HTMLElement>(null);
  const where = route.value.path.join('/');

  useKept(status);
  useEffect(() => {
    startLive();
    return stopLive;
  }, []);

  const known = useRef(where);
  useEffect(() => {
    open.value = false;
    if (known.current === where) return;
    known.current = where;
    // A new page begins at its top, and the next Tab goes into it.
    window.scrollTo(0, 0);
    if (searching) searching = searchField() === null;
    else main.current?.focus({ preventScroll: true });
  }, [where]);

  const shortcuts: Shortcut[] = [
    { keys: '/', text: 'Search jobs', run: () => focusSearch() },
    { keys: 'n', text: 'New job', run: () => go('#/new') },
    { keys: '?', text: 'These keys', run: () => { helping.value = true; } },
    { keys: 'd', text: 'Dark or light', run: switchTheme },
    ...PLACES.filter((place) => !place.admin || may('admin')).map((place) => ({ keys: `g ${place.key}`, text: `Go to ${place.text}`, run: () => go(`#/${place.path}`) })),
  ];
  useEffect(() => startShortcuts(() => shortcuts), []);

  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the content</a>
      <div class="frame">
        <header class="top">
          <a class="brand" href="#/"><Mark />runcue</a>
          <ConnectionState />
          <button type="button" class="icon" aria-label="Menu" aria-expanded={open.value} aria-controls="side" onClick={() => { open.value = !open.value; }}><Icon name={open.value ? 'close' : 'menu'} /></button>
        </header>
        <div id="side" class={open.value ? 'side open' : 'side'}>
          <a class="brand" href="#/"><Mark />runcue</a>
          <Navigation first={route.value.path[0] ?? ''} />
          <div class="foot">
            <ConnectionState />
            <Self />
            <div class="buttons">
              <button type="button" class="icon" onClick={switchTheme} aria-label={isDark.value ? 'Light colours' : 'Dark colours'} title={isDark.value ? 'Light colours (d)' : 'Dark colours (d)'}><Icon name={isDark.value ? 'sun' : 'moon'} /></button>
              <button type="button" class="icon" onClick={() => { helping.value = true; }} aria-label="Keys" title="Keys (?)"><Icon name="keys" /></button>
              {!who.value?.open && <button type="button" class="icon" onClick={() => attempt(logout)} aria-label="Log out" title="Log out"><Icon name="out" /></button>}
            </div>
          </div>
        </div>
        <main id="main" tabIndex={-1} ref={main}>{page(route.value)}</main>
      </div>
      <Offline />
      <Toasts />
      {helping.value && <Help shortcuts={shortcuts} onClose={() => { helping.value = false; }} />}
    </>
  );
}

/** Somebody wants to search and the page with the field is on its way. */
let searching = false;

function searchField(): HTMLInputElement | null {
  const field = document.querySelector<HTMLInputElement>('[data-search]');
  field?.focus();
  return field;
}

function focusSearch(): void {
  if (searchField()) return;
  searching = true;
  go('#/jobs');
}

function Navigation({ first }: { first: string }): JSX.Element {
  const counts = status.data.value?.counts;
  const badge: Record<string, number | undefined> = { jobs: counts && (counts.queued ?? 0) + (counts.leased ?? 0) + (counts.running ?? 0), quarantine: counts?.quarantined };
  return (
    <nav aria-label="Pages">
      <ul>
        {PLACES.filter((place) => !place.admin || may('admin')).map(({ path, text, apart }) => (
          <li key={path} class={apart ? 'apart' : ''}>
            <a href={`#/${path}`} aria-current={first === path || (first === 'new' && path === 'jobs') ? 'page' : undefined}>
              {text}{badge[path] ? <span class={path === 'quarantine' ? 'count bad' : 'count'}>{brief(badge[path]!)}<span class="unseen">{path === 'jobs' ? ' not ended' : ' to look at'}</span></span> : null}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function ConnectionState(): JSX.Element {
  const state = connection.value.state;
  const text = { connecting: 'connecting…', live: 'live', resting: 'resting', offline: 'offline' }[state];
  return <p class={`connection ${state}`}><i />{text}</p>;
}

function Self(): JSX.Element | null {
  const me = who.value;
  if (!me) return null;
  return <p class="soft cut" title={me.open ? 'On this machine only; no token is needed' : undefined}>{me.open ? 'open hub' : `${me.name ?? 'somebody'}, ${me.role}`}</p>;
}

/** Lies over the page, so that nothing on it moves when the hub goes away. */
function Offline(): JSX.Element {
  const state = connection.value;
  const away = state.state === 'offline';
  const left = away ? Math.max(0, Math.ceil((state.retryAt - Date.now()) / 1000)) : 0;
  void now.value;
  return (
    <div role="status" aria-live="polite">
      {away && <div class="banner"><span>Offline: what you see may be old. {left > 0 ? `Trying again in ${left} s.` : 'Trying again…'}</span><button type="button" class="small" onClick={tryNow}>Try now</button></div>}
    </div>
  );
}

function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={`toast ${toast.tone}`}>
          <div><p>{toast.text}</p>{toast.help && <p><Words text={toast.help} /></p>}</div>
          <button type="button" class="icon small" aria-label="Dismiss" onClick={() => dismiss(toast.id)}><Icon name="close" /></button>
        </div>
      ))}
    </div>
  );
}

function Help({ shortcuts, onClose }: { shortcuts: Shortcut[]; onClose: () => void }): JSX.Element {
  const inTable: [string, string][] = [['j k', 'Down and up in a table of jobs'], ['x', 'Pick the job'], ['Enter', 'Open the job']];
  const all = [...shortcuts.map(({ keys, text }): [string, string] => [keys, text]), ...inTable];
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">{all.map(([keys, text]) => <><dt>{keys.split(' ').map((key) => <><kbd>{key}</kbd> </>)}</dt><dd>{text}</dd></>)}</dl>
      <p class="gap-over" />
    </Dialog>
  );
}
