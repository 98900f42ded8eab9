#!/bin/sh
# A shell script behind haltline, with curl: sh examples/shell_agent.sh http://127.0.0.1:8765
service=$1 calls=0
ask() { # a verb and the members of its JSON; prints the answer
  curl -sf --json "{$2}" -H "Authorization: Bearer ${HALTLINE_INTAKE_TOKEN:-}" "$service/v2/$1"
}
field() { # the text of a member of the answer
  printf %s "$answer" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"
}
quoted() { # a text of JSON
  printf '"%s"' "$(printf %s "$1" | tr '\n\t\r' '   ' | sed 's/[\\"]/\\&/g')"
}
guarded() { # makes a call, a function and its argument, if it may be made
  calls=$((calls + 1)) id="\"token\": \"$token\", \"call_id\": \"$calls\""
  answer=$(ask propose "$id, \"action\": $(quoted "$1"), \"args\": {\"asset_id\": $(quoted "$2")}") || answer='{"answer":"none"}'
  case $(field answer) in
    allow | reinforce) ;;
    wait) sleep 1; guarded "$@"; return ;;
    stop) echo "stopped: $(field code)"; exit 1 ;;
    *) echo "refused: $(field code)"; return 1 ;; # also without an answer
  esac
  if output=$("$@" 2>&1); then ask end "$id, \"output\": $(quoted "$output")"; else ask end "$id, \"error\": $(quoted "$output")"; fi > /dev/null
  echo "$output"
}
delete_asset() { echo "$1 still exists"; }
answer=$(ask begin '"agent_id": "shell-cleaner"') || { echo "expected a service at $service, got none"; exit 1; }
token=$(field token)
for _ in 1 2 3 4; do guarded delete_asset fact_sales; done
