// Owns the layout of the dependency graph: which column and row each job stands in, and the curves between. Pure.
import type { Relative, State } from './types';

export interface GraphJob { id: string; type: string; state: State; prerequisites: Relative[]; dependents: Relative[] }
export interface Placed { id: string; type: string; state: State; column: number; row: number; x: number; y: number }
export interface Edge { from: string; to: string; path: string }
export interface Drawing { nodes: Placed[]; edges: Edge[]; width: number; height: number; hidden: number }

export const BOX = { width: 168, height: 44, gapX: 36, gapY: 14, margin: 8 };
/** More than this in one column is not drawn; the drawing says how many are missing. */
const MOST_IN_COLUMN = 12;

/** Lays out everything reachable in `known` from `centre`, prerequisites to the left, dependents to the right. */
export function layOut(centre: string, known: Map<string, GraphJob>): Drawing {
  const about = new Map<string, { type: string; state: State }>();
  const column = new Map<string, number>([[centre, 0]]);
  const links = new Map<string, [string, string]>();
  const link = (from: string, to: string): void => void links.set(`${from} ${to}`, [from, to]);
  for (const job of known.values()) {
    about.set(job.id, job);
    for (const other of [...job.prerequisites, ...job.dependents]) if (!about.has(other.id)) about.set(other.id, other);
  }
  spread(centre, known, column, -1, (job) => job.prerequisites);
  spread(centre, known, column, 1, (job) => job.dependents);
  for (const job of known.values()) {
    for (const other of job.prerequisites) if (column.has(other.id) && column.has(job.id)) link(other.id, job.id);
    for (const other of job.dependents) if (column.has(other.id) && column.has(job.id)) link(job.id, other.id);
  }
  return draw(about, column, [...links.values()]);
}

/** Walks one way and gives every job the column farthest from the centre, so that no edge points backwards. */
function spread(centre: string, known: Map<string, GraphJob>, column: Map<string, number>, step: 1 | -1, next: (job: GraphJob) => Relative[]): void {
  let open = [centre];
  for (let depth = 1; open.length && depth <= known.size + 1; depth++) {
    const found: string[] = [];
    for (const id of open) {
      const job = known.get(id);
      if (!job) continue;
      for (const other of next(job)) {
        if (other.id === centre) continue;
        column.set(other.id, depth * step);
        found.push(other.id);
      }
    }
    open = [...new Set(found)];
  }
}

function draw(about: Map<string, { type: string; state: State }>, column: Map<string, number>, links: [string, string][]): Drawing {
  const columns = new Map<number, string[]>();
  for (const [id, at] of column) columns.set(at, [...(columns.get(at) ?? []), id]);
  const order = [...columns.keys()].sort((a, b) => a - b);
  let hidden = 0;
  for (const at of order) {
    const ids = columns.get(at)!;
    if (ids.length > MOST_IN_COLUMN) {
      hidden += ids.length - MOST_IN_COLUMN;
      columns.set(at, ids.slice(0, MOST_IN_COLUMN));
    }
  }
  const tallest = Math.max(...order.map((at) => columns.get(at)!.length));
  const height = tallest * (BOX.height + BOX.gapY) - BOX.gapY + 2 * BOX.margin;
  const nodes = new Map<string, Placed>();
  order.forEach((at, place) => {
    const ids = columns.get(at)!;
    const used = ids.length * (BOX.height + BOX.gapY) - BOX.gapY;
    ids.forEach((id, row) => {
      const { type, state } = about.get(id)!;
      nodes.set(id, { id, type, state, column: at, row, x: BOX.margin + place * (BOX.width + BOX.gapX), y: (height - used) / 2 + row * (BOX.height + BOX.gapY) });
    });
  });
  const edges = links.flatMap(([from, to]) => {
    const a = nodes.get(from);
    const b = nodes.get(to);
    return a && b ? [{ from, to, path: curve(a, b) }] : [];
  });
  return { nodes: [...nodes.values()], edges, width: order.length * (BOX.width + BOX.gapX) - BOX.gapX + 2 * BOX.margin, height, hidden };
}

function curve(a: Placed, b: Placed): string {
  const x1 = a.x + BOX.width;
  const y1 = a.y + BOX.height / 2;
  const x2 = b.x - 5;
  const y2 = b.y + BOX.height / 2;
  const bend = Math.max(20, (x2 - x1) / 2);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}
