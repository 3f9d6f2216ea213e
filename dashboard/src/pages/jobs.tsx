// The jobs page: filters in the address, a live table, keyset pages, actions on picked jobs or on everything the filter matches.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import { bulkFilter, concerns, describe, isEmpty, NO_FILTER, readFilter, toggleState, writeFilter } from '../filter';
import type { Filter, TextField } from '../filter';
import { brief, count, plural } from '../format';
import { useJobList } from '../joblist';
import type { JobList } from '../joblist';
import { newer, pageNumber, walk } from '../paging';
import type { Trail } from '../paging';
import { BulkDialog } from '../parts/bulk';
import type { BulkPlan } from '../parts/bulk';
import { StateIcon } from '../parts/icons';
import { JobTable } from '../parts/jobtable';
import { Card, Field, Head } from '../parts/layout';
import { Empty, Problem } from '../parts/notices';
import { useResource } from '../resource';
import { go, href, route } from '../router';
import { may } from '../who';
import { status } from '../status';
import { STATES } from '../types';

function address(filter: Filter, before: string | null): string {
  const query = writeFilter(filter);
  if (before) query.set('before', before);
  return href(['jobs'], query);
}

export function JobsPage(): JSX.Element {
  const { query } = route.value;
  const filter = readFilter(query);
  const before = query.get('before');
  const request = writeFilter(filter);
  if (before) request.set('before', before);
  const list = useJobList(request, (event) => concerns(filter, event));
  const hold = (on: boolean) => (): void => { list.reading.value = on; };
  return (
    <>
      <Head title="Jobs" actions={may('submit') && <a class="button primary" href="#/new">New job</a>} />
      <StateChips filter={filter} />
      <TextFilters filter={filter} />
      <Card bare>
        {/* The strip belongs to it: its button must not vanish on the way there. */}
        <div onMouseEnter={hold(true)} onMouseLeave={hold(false)} onFocusIn={hold(true)} onFocusOut={hold(false)}>
          <Strip list={list} filter={filter} before={before} />
          <Rows list={list} filter={filter} before={before} />
        </div>
        <Pager list={list} filter={filter} before={before} />
      </Card>
    </>
  );
}

function StateChips({ filter }: { filter: Filter }): JSX.Element {
  const counts = status.data.value?.counts ?? {};
  return (
    <div class="chips" role="group" aria-label="States">
      <button type="button" class="chip" aria-pressed={filter.states.length === 0} onClick={() => go(address({ ...filter, states: [] }, null))}>all</button>
      {STATES.map((state) => (
        <button type="button" class="chip" key={state} aria-pressed={filter.states.includes(state)} onClick={() => go(address(toggleState(filter, state), null))}>
          <StateIcon state={state} />{state} <span class="n">{counts[state] === undefined ? '' : brief(counts[state]!)}</span>
        </button>
      ))}
    </div>
  );
}

const MORE: TextField[] = ['queue', 'project', 'label'];

function TextFilters({ filter }: { filter: Filter }): JSX.Element {
  const [more, setMore] = useState(MORE.some((field) => filter[field] !== ''));
  const tasks = useResource('tasks', api.tasks, {});
  const groups = useResource('groups', api.groups, {});
  return (
    <>
      <div class="filters" role="search">
        <TextFilter filter={filter} field="q" label="Search" placeholder="id, type, target, group or error" class="wide" id="search" />
        <TextFilter filter={filter} field="type" label="Type" options={(tasks.data.value ?? []).map((task) => task.name)} />
        <TextFilter filter={filter} field="group" label="Group" options={(groups.data.value ?? []).flatMap((group) => group.name ?? [])} />
        <button type="button" aria-expanded={more} onClick={() => setMore(!more)}>{more ? 'Fewer' : 'More'}</button>
      </div>
      {more && <div class="filters more">{MORE.map((field) => <TextFilter key={field} filter={filter} field={field} label={field[0]!.toUpperCase() + field.slice(1)} />)}</div>}
    </>
  );
}

interface TextFilterProps { filter: Filter; field: TextField; label: string; placeholder?: string; options?: string[]; class?: string; id?: string }

/** Waits for a pause in typing before it asks the hub. */
function TextFilter({ filter, field, label, placeholder, options, class: name, id }: TextFilterProps): JSX.Element {
  const [text, setText] = useState(filter[field]);
  const typing = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => {
    clearTimeout(typing.current);
    setText(filter[field]);
  }, [filter[field]]);
  const change = (value: string): void => {
    setText(value);
    clearTimeout(typing.current);
    typing.current = setTimeout(() => go(address({ ...readFilter(route.value.query), [field]: value }, null), true), 250);
  };
  const known = options?.length ? `known-${field}` : undefined;
  return (
    <Field label={label} class={name}>
      {(attributes) => (
        <>
          <input {...attributes} type={field === 'q' ? 'search' : 'text'} data-search={id} value={text} placeholder={placeholder ?? 'any'} autocomplete="off" spellcheck={false} list={known} onInput={(event) => change(event.currentTarget.value)} />
          {known && <datalist id={known}>{options?.slice(0, 200).map((option) => <option key={option} value={option} />)}</datalist>}
        </>
      )}
    </Field>
  );
}

function Strip({ list, filter, before }: { list: JobList; filter: Filter; before: string | null }): JSX.Element {
  const [plan, setPlan] = useState<BulkPlan | null>(null);
  const picked = list.picked.value;
  const fresh = list.fresh.value;
  const exact = bulkFilter(filter);
  const admin = may('admin');
  const scope = picked.size ? `${picked.size} picked` : isEmpty(filter) ? 'all' : 'all matching';
  const why = !admin ? 'This takes a token with the role admin.' : !picked.size && !exact ? 'A search text cannot steer an action on all jobs: pick jobs, or filter by type, group or state.' : undefined;
  const begin = (verb: api.BulkVerb): void => {
    if (picked.size) setPlan({ verb, filter: { ids: [...picked] }, scope: `The ${plural(picked.size, 'job')} you picked.` });
    else if (exact) setPlan({ verb, filter: exact, scope: isEmpty(filter) ? 'Every job of this hub.' : `Everything that matches: ${describe(filter)}. Not only this page.` });
  };
  return (
    <div class="strip">
      <div class="state">
        {picked.size > 0
          ? <><strong>{count(picked.size)} picked</strong><button type="button" class="plain small" onClick={() => { list.picked.value = new Set(); }}>Clear</button></>
          : <span>{list.reading.value ? 'Held still while you read' : before ? 'An older page' : 'Newest first, live'}</span>}
        {fresh > 0 && <button type="button" class="pill" onClick={() => { list.picked.value = new Set(); list.showFresh(); }}>{fresh >= 50 ? '50+' : fresh} new</button>}
      </div>
      <button type="button" class="small" disabled={why !== undefined} title={why} onClick={() => begin('retry')}>Retry {scope}…</button>
      <button type="button" class="small danger" disabled={why !== undefined} title={why} onClick={() => begin('cancel')}>Cancel {scope}…</button>
      {plan && <BulkDialog plan={plan} onClose={() => setPlan(null)} onDone={() => { list.picked.value = new Set(); list.page.refresh(); }} />}
    </div>
  );
}

function Rows({ list, filter, before }: { list: JobList; filter: Filter; before: string | null }): JSX.Element {
  const rows = list.rows.value;
  const error = list.page.error.value;
  if (error != null && (rows === null || list.stale.value)) return <div class="inside"><Problem error={error} /></div>;
  if (rows === null) return <p class="loading tall" role="status">Loading…</p>;
  if (rows.length === 0 && list.stale.value) return <p class="loading tall" role="status">Loading…</p>;
  const further = list.page.data.value?.next ?? null;
  if (rows.length === 0 && further) {
    return <Empty title="No match so far"><p>Asked for: {describe(filter)}. Only so many jobs are looked through at once, the newest first; there are older ones.</p><a class="button" href={address(filter, further)}>Look further back</a></Empty>;
  }
  if (rows.length === 0) return before ? <Empty title="Nothing further back"><a class="button" href={address(filter, null)}>Back to the newest</a></Empty> : <NoJobs filter={filter} />;
  return (
    <>
      {error != null && !api.isAway(error) && <div class="inside"><Problem error={error} /></div>}
      <JobTable jobs={rows} picked={list.picked.value} onPick={list.pick} busy={list.stale.value} label="Jobs" />
    </>
  );
}

function NoJobs({ filter }: { filter: Filter }): JSX.Element {
  if (!isEmpty(filter)) {
    return <Empty title="No job matches"><p>Asked for: {describe(filter)}.</p><a class="button" href={address(NO_FILTER, null)}>Show all jobs</a></Empty>;
  }
  return <Empty title="No jobs yet" command="runcue add -- echo hello"><p>Submit the first one from a shell, over HTTP, or with “New job” above. It appears here at once.</p></Empty>;
}

function Pager({ list, filter, before }: { list: JobList; filter: Filter; before: string | null }): JSX.Element {
  const trail = useRef<Trail>([]);
  trail.current = walk(trail.current, before);
  const next = list.page.data.value?.next ?? null;
  const rows = list.stale.value ? 0 : list.rows.value?.length ?? 0;
  const back = newer(trail.current);
  return (
    <nav class="pager" aria-label="Pages">
      <span class="place">{rows === 0 ? '' : `Page ${pageNumber(trail.current)}, ${plural(rows, 'job')}${next ? '' : ', the last page'}`}</span>
      {before && trail.current.length > 1 && <a class="button" href={address(filter, null)}>Newest</a>}
      {before ? <a class="button" rel="prev" href={address(filter, back)}>Newer</a> : <button type="button" disabled>Newer</button>}
      {next ? <a class="button" rel="next" href={address(filter, next)}>Older</a> : <button type="button" disabled>Older</button>}
    </nav>
  );
}
