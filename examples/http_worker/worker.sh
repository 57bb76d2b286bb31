#!/bin/sh
# A worker in sh and curl, written from the OpenAPI document alone: GET /api/v1/openapi.json describes each request.
#
#   LEASEHOLD_SERVER=http://127.0.0.1:8000 LEASEHOLD_TOKEN=lh_… sh worker.sh greet
#
# It joins with its first claim, runs one job at a time, sends heartbeats meanwhile, and ends the claim by complete or
# fail. It stops after MAX_JOBS jobs, if that is set. Needs curl and sed; a real worker would read JSON with jq.
set -u
definition=$1
jobs=${LEASEHOLD_SERVER:?}/api/v1/worker/jobs
worker='' done=0 answer=$(mktemp) beat=''
trap 'rm -f "$answer"; [ -z "$beat" ] || kill "$beat" 2>/dev/null' EXIT

# Sends a body to a path; the answer is in $answer, its status on stdout. The token is not among the arguments, where
# every process of this machine could read it.
post() {
  printf 'header = "Authorization: Bearer %s"\n' "${LEASEHOLD_TOKEN:?}" |
    curl --silent --config - --max-time 30 --output "$answer" --write-out '%{http_code}' \
      --header 'Content-Type: application/json' --data "$2" "$jobs/$1"
}

# Prints the text of a field of the answer: the first one of that name.
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$answer" | head -n 1; }

# The program of this worker. Its output is the result, a JSON text; if it fails, its output is the error.
run() {
  name=$(printf '%s' "$1" | sed -n 's/.*"name":"\([^"]*\)".*/\1/p')
  [ -n "$name" ] || { echo 'the payload has no name'; return 1; }
  printf '"Hello, %s"' "$name"
}

while [ "$done" -lt "${MAX_JOBS:-1000000}" ]; do
  known=${worker:+\"worker_id\":\"$worker\",}
  status=$(post claim "{$known\"definitions\":[\"$definition\"],\"limit\":1,\"lease_seconds\":60,\"host\":\"$(hostname)\"}")
  case $status in
    200) worker=$(field worker_id) ;;
    409) worker=''; continue ;; # the lease has run out: join again
    401 | 403) echo "refused: $(cat "$answer")" >&2; exit 1 ;;
    *) sleep 2; continue ;;
  esac
  job=$(field job_id) fence=$(field fence)
  [ -n "$job" ] || { sleep 1; continue; }
  payload=$(sed -n 's/.*"payload":\({[^}]*}\).*/\1/p' "$answer")
  claim="\"worker_id\":\"$worker\",\"fence\":\"$fence\""

  (answer=$(mktemp); while sleep 20; do post "$job/heartbeat" "{$claim}" >/dev/null; done) &
  beat=$!
  if result=$(run "$payload"); then
    body="{$claim,\"result\":$result}" verb=complete
  else
    body="{$claim,\"error\":\"$result\",\"code\":\"greet_failed\",\"final\":true}" verb=fail
  fi
  kill "$beat"
  # An answer may be lost. The same request sent again gets the same answer, and 409 says that the claim is lost.
  while status=$(post "$job/$verb" "$body"); [ "$status" != 200 ] && [ "$status" != 409 ]; do sleep 2; done
  echo "$job $verb: $(field status)"
  done=$((done + 1))
done
