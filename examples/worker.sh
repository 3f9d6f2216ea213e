#!/usr/bin/env bash
# The documented worker in a few lines of bash: register, claim, beat, run, report. Needs curl and jq.
# HUB_URL and NODE_ID say where and who; FORGE_INGEST_SECRET is the token, if the hub wants one.
set -euo pipefail
hub=${HUB_URL:-http://127.0.0.1:3000} me=${NODE_ID:-$(hostname)}
post() { curl -sS --fail-with-body -X POST "$hub$1" -H 'Content-Type: application/json' \
  ${FORGE_INGEST_SECRET:+-H "Authorization: Bearer $FORGE_INGEST_SECRET"} -d "$2"; }
post /api/workers/register "{\"worker_id\":\"$me\",\"cores\":$(nproc),\"ram_gb\":1,\"tags\":[]}"
while job=$(post /api/jobs/claim "{\"worker_id\":\"$me\",\"wait\":${WAIT:-30}}"); do
  [ -n "$job" ] || { [ -n "${ONCE:-}" ] && break || continue; }
  id=$(jq -r .id <<<"$job")
  post "/api/jobs/$id/heartbeat" "{\"worker_id\":\"$me\"}"
  while sleep 10; do post "/api/jobs/$id/heartbeat" "{\"worker_id\":\"$me\"}" || break; done & beat=$!
  if out=$("${SOLVER:-cat}" <<<"$(jq -c .params <<<"$job")" 2>&1)
  then post "/api/jobs/$id/result" "$(jq -nc --arg w "$me" --arg r "$out" '{worker_id:$w, result:$r}')"
  else post "/api/jobs/$id/fail" "$(jq -nc --arg w "$me" --arg r "$out" '{worker_id:$w, reason:$r}')"; fi
  kill "$beat" 2>/dev/null || true
done
