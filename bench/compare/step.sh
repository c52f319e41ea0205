#!/usr/bin/env bash
# Training throughput of a model, ours beside PyTorch's: the same sizes and threads, one after the
# other, ROUNDS times; the medians count. bench/compare/README.md says how to read it.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: bench/compare/step.sh MODEL [OPTIONS]

  MODEL            nmt | transformer | resnet | deepspeech2
  --threads N      of both programs (all processors)
  --rounds N       times that each program is started, alternating (5)
  --steps N        steps timed in a round, after 2 that are not (3)
  --python PYTHON  one that can import torch (python3)
  --bench BINARY   (build/bench_step_bench)
  --device DEVICE  of both programs: cpu or cuda (cpu)
  --compile        also PyTorch with torch.compile
USAGE
}

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
bench=$here/../../build/bench_step_bench
threads=$(nproc) rounds=5 steps=3 python=python3 device=cpu model='' compile=()
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --compile) compile=(--compile); shift ;;
    --threads | --rounds | --steps | --python | --bench | --device)
      (($# > 1)) || { usage >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2 ;;
    -*) usage >&2; exit 2 ;;
    *) model=$1; shift ;;
  esac
done
[[ $model ]] || { usage >&2; exit 2; }

[[ -x $bench ]] ||
  { echo "step.sh: no $bench; build it: cmake --build build --target benches" >&2; exit 2; }
"$python" -c 'import torch' 2>/dev/null ||
  { echo "step.sh: $python cannot import torch; pip install torch, or give --python" >&2; exit 2; }

# Our configuration and options, a word a line. Those of PyTorch's script are its defaults.
options=$("$python" - "$here/cases.json" "$model" <<'CASE'
import json
import sys

cases = json.load(open(sys.argv[1]))
if sys.argv[2] not in cases:
    sys.exit(f"step.sh: MODEL is one of {', '.join(cases)}")
print("\n".join(cases[sys.argv[2]]["ours"]))
CASE
) || exit 2
mapfile -t ours <<<"$options"
theirs=("$python" "$here/pytorch_$model.py" --threads "$threads" --steps "$steps" --device "$device")
results=$(mktemp)
trap 'rm -f "$results"' EXIT
export OMP_NUM_THREADS=$threads
for ((round = 1; round <= rounds; ++round)); do
  printf 'round %d of %d, load %s\n' "$round" "$rounds" "$(cut -d' ' -f1 /proc/loadavg)" >&2
  "$bench" "${ours[@]}" --json --steps "$steps" --set memory.recompute=none \
    --set device.threads="$threads" --set device.type="$device" >>"$results"
  "${theirs[@]}" >>"$results"
  ((${#compile[@]} == 0)) || "${theirs[@]}" "${compile[@]}" >>"$results"
done

"$python" - "$results" <<'TABLE'
import json
import statistics
import sys

rows = {}
for line in open(sys.argv[1]):
    row = json.loads(line)
    rows.setdefault(row["program"], []).append(row)
print(f"{'':24} {'step ms':>9} {'least':>9} {'most':>9} {'samples/s':>12} {'tokens/s':>10} {'ratio':>6}")
first = None
for name, runs in rows.items():
    ms = [r["step_ms"] for r in runs]
    rates = [statistics.median(r[k] for r in runs) for k in ("samples_per_s", "tokens_per_s")]
    first = first or rates[0]
    print(f"{name:24} {statistics.median(ms):9.0f} {min(ms):9.0f} {max(ms):9.0f} "
          f"{rates[0]:12.1f} {rates[1]:10.0f} {first / rates[0]:6.2f}")
print(f"{runs[0]['threads']} threads, {len(runs)} rounds; ratio: of ours to the row's samples/s")
TABLE
