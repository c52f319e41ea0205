#!/usr/bin/env bash
# Training throughput of Echo's NMT recipe, ours beside PyTorch's: the same sizes and threads, one
# after the other, ROUNDS times; the medians count. bench/compare/README.md says how to read it.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: bench/compare/nmt.sh [OPTIONS]

  --threads N      of both programs (all processors)
  --rounds N       times that each program is started, alternating (5)
  --steps N        steps timed in a round, after 2 that are not (3)
  --python PYTHON  one that can import torch (python3)
  --bench BINARY   (build/bench_nmt_step_bench)
USAGE
}

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
bench=$here/../../build/bench_nmt_step_bench
threads=$(nproc) rounds=5 steps=3 python=python3
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --threads | --rounds | --steps | --python | --bench)
      (($# > 1)) || { usage >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
[[ -x $bench ]] ||
  { echo "nmt.sh: no $bench; build it: cmake --build build --target benches" >&2; exit 2; }
"$python" -c 'import torch' 2>/dev/null ||
  { echo "nmt.sh: $python cannot import torch; pip install torch, or give --python" >&2; exit 2; }

results=$(mktemp)
trap 'rm -f "$results"' EXIT
export OMP_NUM_THREADS=$threads
for ((round = 1; round <= rounds; ++round)); do
  printf 'round %d of %d, load %s\n' "$round" "$rounds" "$(cut -d' ' -f1 /proc/loadavg)" >&2
  "$bench" --json --steps "$steps" --set device.threads="$threads" >>"$results"
  "$python" "$here/pytorch_nmt.py" --threads "$threads" --steps "$steps" >>"$results"
done

"$python" - "$results" <<'TABLE'
import json
import statistics
import sys

rows = {}
for line in open(sys.argv[1]):
    row = json.loads(line)
    rows.setdefault(row["program"], []).append(row)
print(f"{'':24} {'step ms':>9} {'least':>9} {'most':>9} {'sentences/s':>12} {'target words/s':>15}")
medians = []
for name, runs in rows.items():
    ms = [r["step_ms"] for r in runs]
    middle = {k: statistics.median(r[k] for r in runs)
              for k in ("step_ms", "sentences_per_s", "target_tokens_per_s")}
    medians.append(middle["sentences_per_s"])
    print(f"{name:24} {middle['step_ms']:9.0f} {min(ms):9.0f} {max(ms):9.0f} "
          f"{middle['sentences_per_s']:12.1f} {middle['target_tokens_per_s']:15.0f}")
print(f"ratio {medians[0] / medians[1]:.2f}, {runs[0]['threads']} threads, {len(runs)} rounds")
TABLE
