export function startFront(hub: string, dist: string, port: number): Promise<{ url: string; stop: () => void }>;
