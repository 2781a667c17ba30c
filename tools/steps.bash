# For scripts that run many steps and end with their sum: source it, call `count` and `skip`, end with
# `summary`. A step is a command whose last line is `N passed, N failed`.

log=$(mktemp)
trap 'rm -f "$log"; bazel shutdown >/dev/null 2>&1' EXIT

total_passed=0
total_failed=0
skipped=()
failures=()
minutes=()

# count NAME COMMAND...: runs a step; ending without that line also counts as a failure.
count() {
  local name=$1 status=0 passed failed begin=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@" 2>&1 | tee "$log" || status=$?
  read -r passed failed < <(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$log")
  if [ -z "${failed:-}" ] || { [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
    failed=$((${failed:-0} + 1))
    failures+=("FAILED $name: it ended with status $status after:" "$(tail -n 15 "$log")")
  fi
  mapfile -t -O ${#skipped[@]} skipped < <(grep '^skipped: ' "$log")
  mapfile -t -O ${#failures[@]} failures < <(sed -n "s/^FAILED /FAILED in $name: /p" "$log")
  total_passed=$((total_passed + ${passed:-0}))
  total_failed=$((total_failed + failed))
  minutes+=("$name $(((SECONDS - begin + 30) / 60))")
}

# skip TEXT: says what was not run, and why.
skip() { skipped+=("skipped: $1"); }

# Prints what was skipped, what failed, each step's minutes and the sum; true if nothing failed.
summary() {
  printf '\n'
  [ ${#skipped[@]} -eq 0 ] || printf '%s\n' "${skipped[@]}"
  [ ${#failures[@]} -eq 0 ] || printf '%s\n' "${failures[@]}"
  printf 'minutes: %s\n' "$(IFS=,; echo "${minutes[*]}")"
  printf '%d passed, %d failed\n' "$total_passed" "$total_failed"
  [ "$total_failed" -eq 0 ]
}
