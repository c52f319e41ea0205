"""scripts/gpu-check on the emulated GPU: every stage runs, and what it says holds, before a card's first
minute is spent. PyTorch only pretends. Run by ctest with the folder of the build: sizes are toys, and tests
are few. PAL_REHEARSAL=long runs all tests, and trains the program's own configurations, which takes the
emulation hours; PAL_REHEARSAL=tests,graphs does that with these parts alone. PAL_REHEARSAL_OUT names
a folder that keeps the results."""
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
PYTHON = f'''#!{sys.executable}
import json, sys
if sys.argv[1] == "-c":
    sys.exit(1)
for line in sys.stdin:
    print(json.dumps({{"result": {{"copy_gb_s": 1.0}} if "ceilings" in line else
                      {{"program": "PyTorch", "step_ms": 1.0, "samples_per_s": 2.0}}}}), flush=True)
'''

SENTENCES = """data:
  root: {}
  source_lang: en
  target_lang: vi
  tokenizer: simple
  vocab_min_count: 1
"""
TRAIN = """train: {batch_size: 2, max_epochs: 20, optimizer: adam, lr: 1.0e-3}
"""
TOYS = {
    "nmt_small": """model: {type: nmt, encoder_layers: 1, decoder_layers: 1, hidden: 8, embedding: 8,
        attention: mlp, attention_size: 8}
""" + SENTENCES,
    "transformer_small": """model: {type: transformer, encoder_layers: 1, decoder_layers: 1, hidden: 16,
        ffn: 16, heads: 2}
""" + SENTENCES,
    "resnet_small": """model: {type: resnet, family: cifar, depth: 8}
data:
  root: data/samples/fashion_mnist_small
  format: idx
  train: [train-images-idx3-ubyte.gz]
  valid_count: 2
  channels: 1
  image_size: 8
  mean: [0.286]
  std: [0.353]
""",
    "deepspeech2_small": """model: {type: deepspeech2, conv_kernels: [3x5], conv_strides: [2x2],
        conv_channels: 2, cell: gru, layers: 1, hidden: 8}
data:
  root: data/samples/spoken_digits
  train: manifest.csv
  valid: manifest.csv
  test: manifest.csv
  sample_rate: 8000
  join_least: 1
  join_most: 1
  join_train: 4
  join_eval: 2
  buckets: 1
""",
}


def write_toys(folder):
    """Configurations of the names that gpu-check asks for, and sentences to train on."""
    folder.mkdir()
    words = folder / "words"
    words.mkdir()
    for part in ("train", "valid", "test"):
        for language, letters in (("en", "abcdef"), ("vi", "uvwxyz")):
            (words / f"{part}.{language}").write_text(
                "".join(" ".join(letters[n:n + 3]) + "\n" for n in range(4)))
    for name, text in TOYS.items():
        (folder / f"{name}.yaml").write_text(text.replace("{}", str(words)))
        with (folder / f"{name}.yaml").open("a") as file:
            file.write(TRAIN)
    return folder


class Rehearsal(unittest.TestCase):
    def test_every_stage_runs_on_the_emulated_gpu(self):
        seconds = 7200 if ASKED else 600
        env = dict(os.environ, PAL_EMULATED_GPUS="1")
        options = ["--timeout", "3600", "--tests-timeout", "3600"]
        if ASKED:
            env["GTEST_FILTER"] = "-*KernelCounts*"  # minutes each, and test_gpu has none of them
            options += ["--parts", ASKED] if ASKED != "long" else []
        else:
            env["GTEST_FILTER"] = "*GivesTheBitsOfTheCpu/relu*:SetOnGpu.*"
        with tempfile.TemporaryDirectory() as folder:
            bin_ = pathlib.Path(folder) / "bin"
            bin_.mkdir()
            for name, program in PROGRAMS.items():
                (bin_ / name).symlink_to(BUILD / program)
            if not ASKED:
                options += ["--configs", write_toys(pathlib.Path(folder) / "configs")]
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
        self.assertEqual([r["recorded"] for r in parts["graphs"]["rows"]], [True] * 4)
        if not ASKED:
            self.assertEqual([(r["config"], r["steps"]) for r in parts["models"]["rows"]],
                             [(name, 10) for name in sorted(TOYS)])


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop()).resolve()
    unittest.main(argv=sys.argv)
