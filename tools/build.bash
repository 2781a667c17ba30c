# For scripts that run programs of this repository: source it, then call `build TARGET...`.

# Builds optimised programs. Says nothing, unless that takes longer than a few seconds, or fails.
build() {
  local log status=0
  log=$(mktemp)
  (cd "$root" && exec bazel build --config=opt "$@") </dev/null >"$log" 2>&1 &
  for ((i = 0; i < 30; ++i)); do
    kill -0 $! 2>/dev/null || break
    sleep 0.1
  done
  if kill -0 $! 2>/dev/null; then
    tail --lines=+1 --follow --pid=$! "$log" >&2
    wait $! || status=$?
  else
    wait $! || { status=$? && cat "$log" >&2; }
  fi
  rm "$log"
  return "$status"
}
