# Sourced by the others: `bench CORES WHAT OVERRIDES...` measures and appends one JSON line to $out.
mkdir -p benchmarks/results
: > "$out"
bench() {
  local cores=$1; shift
  echo "bench $*" >&2
  printf '{"command": "bench %s", "result": %s}\n' "$*" "$(taskset -c "$cores" .venv/bin/shusaku bench "$@" --json 2>/dev/null | tail -n 1)" >> "$out"
}
