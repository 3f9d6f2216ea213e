// Owns the shapes of the hub's JSON, as docs/http.md and docs/json.md describe them. Instants are milliseconds, spans seconds.

export const STATES = ['queued', 'leased', 'running', 'completed', 'failed', 'cancelled', 'quarantined'] as const;
export type State = (typeof STATES)[number];
export type Counts = Partial<Record<State, number>>;
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Role = 'read' | 'submit' | 'work' | 'admin';

export interface Me { name: string | null; role: Role | null; open: boolean }

export interface Failure { reason: string; worker_id: string | null; ts: number; kind: string | null; attempt: number | null }

export interface Job {
  id: string;
  seq: number;
  type: string;
  params: Json;
  state: State;
  status: string;
  priority: number;
  worker_id: string | null;
  result: Json;
  created_at: number;
  claimed_at: number | null;
  heartbeat_at: number | null;
  completed_at: number | null;
  attempts: number;
  max_attempts: number | null;
  max_runtime_ms: number | null;
  fail_reason: string | null;
  fail_history: Failure[];
  solver_url: string | null;
  solver_checksum: string | null;
  queue: string;
  group: string | null;
  target: string | null;
  labels: string[] | null;
  project: string | null;
  depends_on: string[] | null;
  dependency_timeout: number | null;
  idempotency_key: string | null;
  retry: Json;
  run_at: number | null;
  expires_at: number | null;
  requires: { cores?: number | null; ram_gb?: number | null; tags?: string[] | null } | null;
  services: { service: string; units: number }[] | null;
  key: string | null;
  crashes: number;
  due_at: number | null;
  prerequisites_left: number;
  lease_expires_at: number | null;
  cancel_requested: boolean;
  progress: { percent: number | null; message: string | null } | null;
}

export interface Relative { id: string; type: string; state: State }

export interface Reason {
  reason: string;
  words: string;
  until?: number | null;
  left?: number;
  jobs?: string[];
  group?: string | null;
  queue?: string;
  service?: string;
  block?: string;
  ahead?: number;
  retry?: boolean;
  error?: string | null;
}

export interface WholeJob extends Job { prerequisites: Relative[]; dependents: Relative[]; why: Reason[] }

export interface Log { n: number; job: string; attempt: number; stream: 'stdout' | 'stderr' | 'note'; at: number; text: string }

export interface Rate { rate_limit: number; rate_window: number; used?: number }

export interface Service {
  name: string;
  status: string;
  status_until: number | null;
  in_use: number;
  max_concurrent: number | null;
  rates: Rate[];
  per_key: Json;
  circuit_threshold: number | null;
  circuit_timeout: number | null;
  circuit_failures: number | null;
  probe: Json;
  paused: boolean;
}

export interface Group { name: string | null; paused: boolean; turn: number | null; counts: Counts }

export interface QueueView { name: string; queued: number; max_queued: number | null; on_full: string; paused: boolean }

export interface Worker {
  worker_id: string;
  name: string | null;
  instance: string | null;
  host: string | null;
  alive: boolean;
  slots: number | null;
  held: number;
  cores: number | null;
  ram_gb: number | null;
  tags: string[] | null;
  started_at: number | null;
  seen_at: number | null;
}

export interface Metrics {
  at: number;
  cpu: number | null;
  mem_used_gb: number | null;
  mem_total_gb: number | null;
  load1: number | null;
  disk_used_gb?: number | null;
  disk_total_gb?: number | null;
  uptime?: number | null;
}

export interface Node {
  node: string;
  name: string | null;
  online: boolean;
  seen_at: number | null;
  latest: Metrics | null;
  history: Metrics[] | null;
  workers: (string | Worker)[] | null;
  active_jobs: number | Relative[];
}

export interface Schedule {
  name: string;
  cron: string;
  zone: string | null;
  missed: string;
  overlap: string;
  paused: boolean;
  task: string;
  queue: string;
  group: string | null;
  priority: number;
  target: string | null;
  params: Json;
  next_at: number[] | null;
  last_at: number | null;
  last_job: string | null;
  fired: number;
  last_error: string | null;
}

export interface Status {
  store: string;
  durability: string;
  at: number;
  counts: Counts;
  ready: number;
  delayed: number;
  blocked: number;
  oldest_ready_at: number | null;
  workers: Partial<Worker>[];
  paused_groups: (string | null)[];
  blocked_services: (Service | string)[];
  hint: string | null;
  last_event: number;
  version: string;
}

export interface Point {
  at: number;
  queued: number | null;
  running: number | null;
  submitted: number | null;
  started: number | null;
  completed: number | null;
  failed: number | null;
  wait_p50: number | null;
  wait_p95: number | null;
  run_p50: number | null;
  run_p95: number | null;
}

export interface Series { step: number; points: Point[] }

export interface TaskView { name: string; services: Json; timeout: number | null; retry: Json }

export interface TokenView { name: string; role: Role; created_at?: number | null; last_used_at?: number | null }

export interface HubEvent {
  seq: number;
  type: string;
  at: number;
  job?: string;
  task?: string;
  group?: string;
  queue?: string;
  attempt?: number;
  worker?: string;
  worker_id?: string;
  state?: string;
  error?: string;
  retry_at?: number;
  service?: string;
  percent?: number;
  message?: string;
  took?: number;
}

export interface NewJob {
  type: string;
  params?: Json;
  priority?: number;
  target?: string;
  group?: string;
  queue?: string;
  project?: string;
  labels?: string[];
  depends_on?: string[];
  services?: { service: string; units: number }[];
  key?: string;
  idempotency_key?: string;
  max_attempts?: number;
  max_runtime_ms?: number;
  run_at?: number;
  expires_at?: number;
}

export interface BulkFilter { ids?: string[]; state?: string; type?: string; group?: string; queue?: string; project?: string; label?: string }
