"""scripts/gpu-check with programs that only pretend: it tries every part, whatever fails, and reports
what happened. Run by ctest."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

PAL = r'''#!/bin/sh
out= device= config= graphs=
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2 ;; --device) device=$2 ;; --config) config=$2 ;; device.graphs=*) graphs=$1 ;;
  esac
  shift
done
case $config in
  nmt_small | transformer_small | resnet_small | deepspeech2_small) ;;
  *) echo "data.root: it is not here" >&2; exit 2 ;;
esac
mkdir -p "$out"
loss=2.0
[ "$config $device" != "transformer_small cuda" ] || loss=@TRANSFORMER_LOSS@
[ "$graphs" != device.graphs=false ] || loss=@PLAIN_LOSS@
printf '{"event":"plan"}\n{"event":"step","loss":%s}\n' "$loss" >"$out/metrics.jsonl"
echo weights >"$out/last.safetensors"
'''
TEST_GPU = r'''#!/bin/sh
for a; do case $a in --gtest_output=json:*) report=${a#--gtest_output=json:} ;; esac; done
cat >"$report" <<'END'
{"testsuites": [{"testsuite": [
  {"classname": "A", "name": "passes", "result": "COMPLETED", "cudnn": "9.19.0"},
  {"classname": "A", "name": "is_skipped", "result": "SKIPPED"}@FAILURE@]}]}
END
'''
FAILURE = ''', {"classname": "A", "name": "fails", "result": "COMPLETED",
  "failures": [{"failure": "1 is not 2"}]}'''
BENCH = r'''#!/bin/sh
echo '{"step_ms": 10.0, "samples_per_s": 5.0, "planned_bytes": 640,
  "recorded_peak_bytes": @PEAK@, "product_gflop": 20.0}'
'''


class GpuCheck(unittest.TestCase):
    def check(self, transformer_loss="2.0", plain_loss="2.0", failure="", peak="640", bench=True):
        with tempfile.TemporaryDirectory() as folder:
            programs = {"pal": PAL, "test_gpu": TEST_GPU}
            if bench:
                programs["bench_step_bench"] = BENCH
            for name, text in programs.items():
                for key, value in [("TRANSFORMER_LOSS", transformer_loss), ("FAILURE", failure),
                                   ("PLAIN_LOSS", plain_loss), ("PEAK", peak)]:
                    text = text.replace(f"@{key}@", value)
                path = pathlib.Path(folder) / name
                path.write_text(text)
                path.chmod(0o755)
            out = pathlib.Path(folder) / "out"
            done = subprocess.run(
                [ROOT / "scripts" / "gpu-check", "--bin", folder, "--out", out, "--parts",
                 "tests,models,graphs,peaks,benchmarks", "--python", "/bin/false"],
                capture_output=True, text=True)
            parts = json.loads((out / "results.json").read_text())["parts"]
            self.page = (out / "results.md").read_text()
            return done.returncode, {name: r["ok"] for name, r in parts.items()}, parts

    def test_what_holds_is_ok(self):
        code, ok, parts = self.check()
        # PyTorch is not there: that part fails, and says so.
        self.assertEqual(ok, {"tests": True, "models": True, "graphs": True, "peaks": True,
                              "benchmarks": False})
        self.assertEqual(code, 1)
        self.assertIn("PyTorch", "".join(parts["benchmarks"]["failed"]))
        self.assertEqual(parts["benchmarks"]["rows"][0]["products TFLOP/s"], 2.0)
        self.assertEqual(parts["tests"]["rows"][0]["cuDNN"], "9.19.0")
        without = {r["model"].split()[0] for r in parts["benchmarks"]["rows"]
                   if r["program"] == "Palimpsest, no cuDNN"}
        self.assertEqual(without, {"resnet", "deepspeech2"})
        notes = {r["config"]: r.get("note") for r in parts["models"]["rows"]}
        self.assertEqual(notes["nmt_iwslt"], "data.root: it is not here")
        self.assertIn("| tests | ok |", self.page)

    def test_what_fails_does_not_stop_the_others(self):
        code, ok, parts = self.check(transformer_loss="2.1", plain_loss="1.9999", failure=FAILURE,
                                     peak="704")
        self.assertEqual(code, 1)
        self.assertEqual(ok, {"tests": False, "models": False, "graphs": False, "peaks": False,
                              "benchmarks": False})
        self.assertEqual(parts["tests"]["failed"], ["A.fails: 1 is not 2"])
        off = {r["config"]: r.get("largest difference") for r in parts["models"]["rows"]}
        self.assertAlmostEqual(off["transformer_small"], 0.05)
        self.assertEqual(off["nmt_small"], 0)
        self.assertIn("| tests | FAILED |", self.page)
        self.assertIn("A.fails: 1 is not 2", self.page)

    def test_what_is_missing_is_skipped(self):
        _, ok, parts = self.check(bench=False)
        self.assertIsNone(ok["peaks"])
        self.assertIn("bench_step_bench", parts["peaks"]["note"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
