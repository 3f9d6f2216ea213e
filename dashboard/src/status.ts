// Owns the state of the hub as everything on the page sees it: asked for once, shown by the navigation, the overview and the filters.
import * as api from './api';
import { hubSays } from './clock';
import { createResource } from './resource';

async function load(stop: AbortSignal): ReturnType<typeof api.status> {
  const status = await api.status(stop);
  hubSays(status.at);
  return status;
}

export const status = createResource(load, { on: (event) => event.type !== 'work_progress', least: 1000, every: 10_000 });
