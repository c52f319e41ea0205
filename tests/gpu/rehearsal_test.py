"""scripts/gpu-check on the emulated GPU: every stage runs, and what it says holds, before a card's first
minute is spent. PyTorch only pretends. Run by ctest with the folder of the build. Stages that train whole
runs (graphs, models), which take the emulation most of an hour, and all tests are of PAL_REHEARSAL=long.
PAL_REHEARSAL=graphs,models goes through these alone. PAL_REHEARSAL_OUT names a folder that keeps the
results."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ASKED = os.environ.get("PAL_REHEARSAL")  # long: everything; or parts
BUILD = pathlib.Path()
PROGRAMS = {"pal": "pal_emulated", "test_gpu": "test_emulation",
            "bench_step_bench": "bench_step_emulated"}
SHORT = ("machine,first,tests,ranks,large,without,ceilings,peaks,operators,sanitizer,large_pytorch,"
         "large_reduced,large_f32,small,small_reduced,small_compiled")
PYTHON = f'''#!{sys.executable}
import json, sys
if sys.argv[1] == "-c":
    sys.exit(1)
for line in sys.stdin:
    print(json.dumps({{"result": {{"copy_gb_s": 1.0}} if "ceilings" in line else
                      {{"program": "PyTorch", "step_ms": 1.0, "samples_per_s": 2.0}}}}), flush=True)
'''


class Rehearsal(unittest.TestCase):
    def test_every_stage_runs_on_the_emulated_gpu(self):
        seconds = 7200 if ASKED else 200
        env = dict(os.environ, PAL_EMULATED_GPUS="1")
        options = ["--timeout", "3600", "--tests-timeout", "3600"]
        if ASKED:
            env["GTEST_FILTER"] = "-*KernelCounts*"  # minutes each, and test_gpu has none of them
            options += ["--parts", ASKED] if ASKED != "long" else []
        else:
            env["GTEST_FILTER"] = "*GivesTheBitsOfTheCpu/relu*:Turns*"
            options = ["--parts", SHORT]
        with tempfile.TemporaryDirectory() as folder:
            bin_ = pathlib.Path(folder) / "bin"
            bin_.mkdir()
            for name, program in PROGRAMS.items():
                (bin_ / name).symlink_to(BUILD / program)
            python = pathlib.Path(folder) / "python"
            python.write_text(PYTHON)
            python.chmod(0o755)
            out = pathlib.Path(os.environ.get("PAL_REHEARSAL_OUT") or pathlib.Path(folder) / "out")
            begin = time.monotonic()
            done = subprocess.run(
                [ROOT / "scripts/gpu-check", "--bin", bin_, "--out", out, "--python", python,
                 "--cases", ROOT / "bench/compare/rehearsal_cases.json", "--steps", "1",
                 "--seconds", str(seconds), *options],
                env=env, capture_output=True, text=True, check=False)
            self.assertLess(time.monotonic() - begin, seconds + 10)
            parts = json.loads((out / "results.json").read_text())["parts"]
            page = (out / "results.md").read_text()
        why = {name: (r["note"], r["failed"]) for name, r in parts.items()}
        for name, result in parts.items():
            self.assertIn(f"## {name}", page)
            self.assertTrue(result["ended"], name)
            with self.subTest(part=name):
                if name in ("sanitizer", "ranks"):
                    self.assertIsNot(result["ok"], False, why[name])
                else:
                    self.assertTrue(result["ok"], why[name])
        self.assertEqual(done.returncode, 0, done.stderr)
        if ASKED and ASKED != "long":
            return
        ours = [r["model"].split(" (")[0] for r in parts["large"]["rows"]
                if r["program"] == "Palimpsest"]
        self.assertEqual(ours, ["nmt", "resnet", "deepspeech2 whole layers", "deepspeech2 unrolled"])
        self.assertEqual(len(parts["large"]["code"]), 4)
        self.assertGreater(len(parts["operators"]["rows"]), 5)
        self.assertTrue(all(r["ms"] >= 0 for r in parts["operators"]["rows"]))


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop()).resolve()
    unittest.main(argv=sys.argv)
