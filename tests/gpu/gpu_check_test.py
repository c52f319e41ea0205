"""scripts/gpu-check with programs that only pretend: it tries every part, whatever fails, and reports
what happened. Run by ctest. PAL_KILLS=N kills it at so many random moments (6)."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
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
for a; do case $a in
  --gtest_output=json:*) report=${a#--gtest_output=json:} ;; --gtest_filter=*) echo "$a" >>"@ASKED@" ;;
esac; done
echo "[ RUN      ] A.sleeps"
sleep @SLEEP@
if [ "$GTEST_SHARD_INDEX" = @CRASH@ ]; then echo "[ RUN      ] A.crashes"; exit 134; fi
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
    def check(self, transformer_loss="2.0", plain_loss="2.0", failure="", peak="640", bench=True,
              crash="none", sleep="0", options=(), kill_when=None, kill_after=None,
              parts="first,tests,ranks,models,graphs,peaks,benchmarks,pytorch,without"):
        with tempfile.TemporaryDirectory() as folder:
            programs = {"pal": PAL, "test_gpu": TEST_GPU}
            if bench:
                programs["bench_step_bench"] = BENCH
            for name, text in programs.items():
                for key, value in [("TRANSFORMER_LOSS", transformer_loss), ("FAILURE", failure),
                                   ("PLAIN_LOSS", plain_loss), ("PEAK", peak),
                                   ("CRASH", crash), ("SLEEP", sleep),
                                   ("ASKED", str(pathlib.Path(folder) / "asked"))]:
                    text = text.replace(f"@{key}@", value)
                path = pathlib.Path(folder) / name
                path.write_text(text)
                path.chmod(0o755)
            out = pathlib.Path(folder) / "out"
            command = [ROOT / "scripts" / "gpu-check", "--bin", folder, "--out", out, "--parts",
                       parts, "--python", "/bin/false", *options]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                file = out / "results.json"
                while kill_when and process.poll() is None:
                    if file.exists() and kill_when(json.loads(file.read_text())["parts"]):
                        process.kill()
                if kill_after is not None:
                    time.sleep(kill_after)
                    process.kill()
                code = process.wait()
            found = json.loads(file.read_text())["parts"] if file.exists() else {}
            page = out / "results.md"
            self.page = page.read_text() if page.exists() else ""
            self.files = sorted(path.name for path in out.iterdir()) if out.exists() else []
            asked = pathlib.Path(folder) / "asked"
            self.asked = asked.read_text().splitlines() if asked.exists() else []
            return code, {name: r["ok"] for name, r in found.items()}, found

    def test_what_holds_is_ok(self):
        code, ok, parts = self.check()
        # PyTorch is not there: that part fails, and says so.
        self.assertEqual(ok, {"first": True, "tests": True, "ranks": True, "models": True,
                              "graphs": True, "peaks": True, "benchmarks": True, "pytorch": False,
                              "without": True})
        # What a manual says of a mask's bits is the first thing that a card is asked.
        self.assertIn("GivesTheBitsOfTheCpu/matmul_relu_grad", self.asked[0])
        self.assertEqual(code, 1)
        self.assertEqual(self.files, ["results.json", "results.md"])
        self.assertIn("PyTorch", "".join(parts["pytorch"]["failed"]))
        self.assertEqual(parts["benchmarks"]["rows"][0]["products TFLOP/s"], 2.0)
        self.assertEqual(parts["tests"]["rows"][0]["cuDNN"], "9.19.0")
        self.assertEqual(len(parts["tests"]["rows"]), 8)
        without = {r["model"].split()[0] for r in parts["without"]["rows"]
                   if r["program"] == "Palimpsest, no cuDNN"}
        self.assertEqual(without, {"resnet", "deepspeech2"})
        notes = {r["config"]: r.get("note") for r in parts["models"]["rows"]}
        self.assertEqual(notes["nmt_iwslt"], "data.root: it is not here")
        self.assertIn("| tests | ok |", self.page)

    def test_what_fails_does_not_stop_the_others(self):
        code, ok, parts = self.check(transformer_loss="2.1", plain_loss="1.9999", failure=FAILURE,
                                     peak="704")
        self.assertEqual(code, 1)
        self.assertEqual(ok, {"first": False, "tests": False, "ranks": False, "models": False,
                              "graphs": False, "peaks": False, "benchmarks": True, "pytorch": False,
                              "without": True})
        self.assertEqual(set(parts["tests"]["failed"]), {"A.fails: 1 is not 2"})
        off = {r["config"]: r.get("largest difference") for r in parts["models"]["rows"]}
        self.assertAlmostEqual(off["transformer_small"], 0.05)
        self.assertEqual(off["nmt_small"], 0)
        self.assertIn("| tests | FAILED |", self.page)
        self.assertIn("A.fails: 1 is not 2", self.page)

    def test_what_is_missing_is_skipped(self):
        _, ok, parts = self.check(bench=False)
        self.assertIsNone(ok["peaks"])
        self.assertIn("bench_step_bench", parts["peaks"]["note"])

    def test_a_crash_costs_one_shard(self):
        _, ok, parts = self.check(crash="3", parts="tests")
        self.assertFalse(ok["tests"])
        self.assertEqual(len(parts["tests"]["rows"]), 8)
        self.assertEqual(sum(r["run"] for r in parts["tests"]["rows"]), 7)
        [line] = parts["tests"]["failed"]
        self.assertIn("shard 4 of 8 ended with 134", line)
        self.assertIn("A.crashes", line)

    def test_a_peak_may_be_below_the_plan(self):
        _, ok, _ = self.check(peak="576", parts="peaks")
        self.assertTrue(ok["peaks"])

    def test_it_ends_in_time(self):
        _, ok, parts = self.check(sleep="1", options=["--seconds", "5"], parts="tests,graphs,peaks")
        self.assertIsNone(ok["tests"])
        self.assertGreater(len(parts["tests"]["rows"]), 0)
        self.assertEqual(parts["peaks"]["note"], "no time was left")

    def test_what_a_command_starts_ends_with_it(self):
        # The shell that pretends to be test_gpu waits for a sleep that nobody else would end.
        begin = time.monotonic()
        _, ok, parts = self.check(sleep="60", options=["--seconds", "4"], parts="tests")
        self.assertLess(time.monotonic() - begin, 10)
        self.assertIsNone(ok["tests"])
        self.assertIn("time was up in [ RUN      ] A.sleeps", parts["tests"]["note"])

    def test_large_sizes_are_tried_beside_the_small_ones(self):
        _, ok, parts = self.check(parts="large,large_pytorch,large_reduced,reduced")
        self.assertTrue(ok["large"])
        self.assertEqual({r["model"].split()[0] for r in parts["large"]["rows"]},
                         {"transformer", "bert", "resnet", "vgg", "nmt", "deepspeech2"})
        sizes = "".join(parts["large_pytorch"]["commands"])
        self.assertIn("pytorch_transformer.py --device cuda", sizes)
        self.assertIn("--batch 832", sizes)
        for part in ["reduced", "large_reduced"]:
            self.assertIn("--compile reduce-overhead", "".join(parts[part]["commands"]))
        _, ok, _ = self.check(parts="large", options=["--device", "cpu"])
        self.assertIsNone(ok["large"])

    def test_a_kill_at_any_moment_leaves_whole_results(self):
        seed = random.randrange(1 << 30)
        draw = random.Random(seed)
        for _ in range(int(os.environ.get("PAL_KILLS", "6"))):
            after = draw.uniform(0, 2)
            with self.subTest(seed=seed, after=after):
                _, _, parts = self.check(sleep="0.02", kill_after=after)
                for name in parts:  # both files are whole: the page has at least what came before
                    if name != list(parts)[-1]:
                        self.assertIn(f"| {name} |", self.page)
                self.assertTrue(self.page.endswith("\n") or not self.page)

    def test_a_kill_leaves_what_there_was(self):
        for rows in [0, 1, 3]:  # read over and over until there are so many
            code, ok, parts = self.check(
                sleep="0.1", parts="tests,graphs",
                kill_when=lambda parts, rows=rows: "tests" in parts
                and len(parts["tests"]["rows"]) >= rows)
            self.assertLess(code, 0)
            self.assertGreaterEqual(len(parts["tests"]["rows"]), rows)
            self.assertIn("| tests |", self.page)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
