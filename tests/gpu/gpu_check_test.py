"""scripts/gpu-check with programs that only pretend: it tries every part, whatever fails, and reports
what happened. Run by ctest. PAL_KILLS=N kills it at so many random moments (6)."""
import collections
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
from gpu_check import shards  # noqa: E402

# Each says in the file `asked` that it was started, and finds in `how.json` what to do.
HEAD = f'''#!{sys.executable} -IS
import json, os, pathlib, signal, sys, time
here = pathlib.Path(sys.argv[0]).resolve().parent
how = json.loads((here / "how.json").read_text())
args = sys.argv[1:]

def tell(*what):
    with (here / "asked").open("a") as asked:
        print(*what, file=asked, flush=True)

'''
PAL = r'''
option = {a: args[i + 1] for i, a in enumerate(args[:-1]) if a.startswith("--")}
config, plain = option["--config"], "device.graphs=false" in args
tell("pal", config)
if config not in ("nmt_small", "transformer_small", "resnet_small", "deepspeech2_small"):
    print("data.root: it is not here", file=sys.stderr)
    sys.exit(2)
out = pathlib.Path(option["--out"])
out.mkdir(parents=True)
loss = 2.0
if (config, option["--device"]) == ("transformer_small", "cuda"):
    loss = how["transformer_loss"]
if plain:
    loss = how["plain_loss"]
elif how["refused"]:
    print("warning: a step is not recorded, and runs node by node: " + how["refused"], file=sys.stderr)
(out / "metrics.jsonl").write_text('{"event":"plan"}\n{"event":"step","loss":%s}\n' % loss)
(out / "last.safetensors").write_text("weights")
'''
# A test's name says what it does.
TEST_GPU = r'''
from fnmatch import fnmatchcase

flags = dict(a[len("--gtest_"):].split("=", 1) for a in args if "=" in a)
if "flagfile" in flags:
    lines = pathlib.Path(flags["flagfile"]).read_text().splitlines()
    flags = dict(a[len("--gtest_"):].split("=", 1) for a in lines)
patterns = flags.get("filter", "*").split(":")
tests = [t for t in how["tests"] if any(fnmatchcase(t, p) for p in patterns)]
if "--gtest_list_tests" in args:
    for t in tests:
        suite, name = t.split(".", 1)
        print(f"{suite}.\n  {name}  # GetParam() = 0x1")
    sys.exit(0)
tell("test_gpu", *tests)
if how["no_start"]:
    sys.exit("libsome.so: cannot open shared object file")
ended = []
for t in tests:
    print("[ RUN      ]", t, flush=True)
    what = t.split("_")[-1]
    result = "      OK "
    if what == "crashes":
        sys.stderr.write("a line before the end\n")
        os.kill(os.getpid(), signal.SIGABRT)
    if what == "sticks":
        print(t + ": an error stays: an illegal memory access was encountered", flush=True)
        os._exit(86)
    if what == "exits":
        os._exit(0)
    if what == "hangs":
        time.sleep(60)
    if what == "sleeps":
        time.sleep(how["sleep"])
    if what == "meets":  # the others, which must be under way too
        (here / ("met-" + t)).touch()
        end = time.monotonic() + 20
        while len(list(here.glob("met-*"))) < 8:
            if time.monotonic() > end:
                print("it was alone")
                result = " FAILED  "
                break
            time.sleep(0.01)
    if what == "fails":
        result = " FAILED  "
        print("x_test.cc:1: Failure\n1 is not 2")
    if what == "skipped":
        result = " SKIPPED "
        print("x_test.cc:1: Skipped\nthere is no GPU")
    print(f"[ {result}] {t} (1 ms)", flush=True)
    ended.append({"classname": "A", "name": t, "cudnn": "9.19.0"})
pathlib.Path(flags["output"].split(":", 1)[1]).write_text(
    json.dumps({"testsuites": [{"testsuite": ended}]}))
print(f"[  FAILED  ] A.other, listed below")
sys.exit(any("fails" in t for t in tests))
'''
BENCH = r'''
tell("bench", *args)
if "slow=true" in args:
    time.sleep(60)
if how["bench_error"]:
    sys.exit("a first line\n" + how["bench_error"] + "\nRun with --help for more information.")
cache = pathlib.Path(os.environ["XDG_CACHE_HOME"]) / "palimpsest"
cache.mkdir(parents=True, exist_ok=True)
with (cache / "algorithms.txt").open("a") as kept:
    print(" ".join(args), file=kept)
said = {"step_ms": 10.0, "samples_per_s": 5.0, "planned_bytes": 640, "product_gflop": 20.0,
        "recorded": how["recorded"] and "device.graphs=false" not in args,
        "code": {"matmul": {"cuBLASLt": 7, "a kernel of ours": 1}}}
if "--canary" in args:
    said["recorded_peak_bytes"] = how["peak"]
if "--profile" in args:
    said["predicted_ms"] = 8.0
if "--operators" in args:
    said["operators"] = [{"name": "relu", "nodes": 3, "ms": 2.0, "gflop": 0, "mb": 8.0,
                          "predicted_ms": 1.0 if "--profile" in args else 0}]
print(json.dumps(said))
'''
# A Python that has PyTorch: what pytorch_cases.py answers.
PYTHON = r'''
if args[0] == "-c":
    print("2.11.0")
    sys.exit(0)
tell("python", *args)
for line in sys.stdin:
    case = json.loads(line)
    ahead = case[case.index("--steps") + 1] == 1 if "--steps" in case else False
    tell("ahead" if ahead else "pytorch", *case)
    if ahead:
        time.sleep(1)
    if how["pytorch_crashes"] in case:
        sys.exit("a crash in PyTorch")
    if how["pytorch_hangs"] in case:
        time.sleep(60)
    if case[0] == "pytorch_ceilings.py":
        print(json.dumps({"result": {"bf16_tflops": 4.0, "f32_tflops": 2.0, "copy_gb_s": 8.0}}),
              flush=True)
    elif how["pytorch_fails"] in case:
        print(json.dumps({"error": "OutOfMemoryError: CUDA out of memory"}), flush=True)
    else:
        print(json.dumps({"result": {"program": "PyTorch 2.11.0", "step_ms": 12.0,
                                     "samples_per_s": 4.0, "peak_bytes": 1e6}}), flush=True)
'''
SMI = r'''
print(how["card"] + (", 580.1, 143771 MiB" if "driver_version" in sys.argv[2] else ""))
'''
MASK = "Cuda/Emulated.GivesTheBitsOfTheCpu/matmul_relu_grad"
TESTS = [MASK, "Steps.train_passes", "OneRank.gives_passes", "A.is_skipped",
         *(f"A.{n}_passes" for n in range(12))]
ALL = ["machine", "first", "tests", "ranks", "graphs", "large", "without", "ceilings", "peaks",
       "operators", "sanitizer", "large_pytorch", "large_reduced", "large_f32", "small",
       "small_reduced", "small_compiled", "models"]


def running_in(folder):
    """Processes whose command line names a folder, by their number."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue  # it ended
        if str(folder) in line:
            found[int(pid)] = line
    return found


def end_what_runs_in(folder):
    """A script that is killed leaves its commands running: they would write where all is removed."""
    while left := running_in(folder):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.all = self.room = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.addCleanup(end_what_runs_in, self.all)

    def check(self, parts, options=(), bench=True, kill_when=None, kill_after=None,
              kill_with=signal.SIGKILL, **how):
        """Runs it. What the programs do is the default, but for what `how` names."""
        folder = self.room = pathlib.Path(tempfile.mkdtemp(dir=self.all))
        how = {"tests": TESTS, "transformer_loss": 2.0, "plain_loss": 2.0, "refused": "",
               "no_start": False, "sleep": 0, "bench_error": "", "recorded": True, "peak": 640,
               "pytorch_crashes": None, "pytorch_hangs": None, "pytorch_fails": None,
               "card": "NVIDIA H200", "python": "/bin/false"} | how
        (folder / "how.json").write_text(json.dumps(how))
        programs = {"pal": PAL, "test_gpu": TEST_GPU, "nvidia-smi": SMI, "python": PYTHON}
        for name, text in (programs | ({"bench_step_bench": BENCH} if bench else {})).items():
            (folder / name).write_text(HEAD + text)
            (folder / name).chmod(0o755)
        out = folder / "out"
        python = str(folder / "python") if how["python"] == "fake" else how["python"]
        command = [ROOT / "scripts" / "gpu-check", "--bin", folder, "--out", out, "--parts", parts,
                   "--python", python, *options]
        env = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}",
                   TMPDIR=str(folder))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env) as process:
            file = out / "results.json"
            while kill_when and process.poll() is None:
                if file.exists() and kill_when(json.loads(file.read_text())["parts"]):
                    process.send_signal(kill_with)
                    break
            if kill_after is not None:
                time.sleep(kill_after)
                process.kill()
            code = process.wait()
        found = json.loads(file.read_text())["parts"] if file.exists() else {}
        page = out / "results.md"
        self.page = page.read_text() if page.exists() else ""
        self.files = sorted(path.name for path in out.iterdir()) if out.exists() else []
        asked = folder / "asked"
        self.asked = asked.read_text().splitlines() if asked.exists() else []
        return code, {name: r["ok"] for name, r in found.items()}, found

    def test_parts_come_in_the_order_of_what_they_tell(self):
        code, ok, parts = self.check(",".join(reversed(ALL)), python="fake")
        self.assertEqual(list(ok), ALL)
        self.assertIsNone(ok.pop("sanitizer"))
        self.assertEqual(set(ok.values()), {True}, {n: p["failed"] for n, p in parts.items()})
        self.assertEqual(code, 0)
        # What a manual says of a mask's bits is the first thing that a card is asked.
        card = [line for line in self.asked if line.startswith(("test_gpu", "bench", "pal"))]
        self.assertEqual(card[0], "test_gpu " + MASK)
        # All that is not timed comes before.
        timed = next(i for i, line in enumerate(card) if line.startswith("bench"))
        self.assertEqual([line for line in card[timed:] if line.startswith("test_gpu")], [])
        self.assertEqual(sum(line.startswith("pal") for line in card[:timed]), 8)

    def test_large_sizes_are_compared_case_by_case(self):
        _, ok, parts = self.check("large,without,large_pytorch,large_reduced,large_f32",
                                  python="fake")
        self.assertEqual(set(ok.values()), {True})
        rows = [(r["model"].split(" (")[0], r["precision"], r["program"].split()[0])
                for r in parts["large"]["rows"]]
        of = ["transformer", "bert", "resnet", "deepspeech2 whole layers", "nmt", "transformer big",
              "vgg"]
        self.assertEqual(rows, [(model, "bf16", program) for model in of
                                for program in ["Palimpsest", "PyTorch"]]
                         + [("deepspeech2 unrolled", "bf16", "Palimpsest")])
        commands = {part: "".join(result["commands"]) for part, result in parts.items()}
        self.assertIn("pytorch_transformer.py --device cuda", commands["large"])
        self.assertIn("--batch 832", commands["large"])
        self.assertIn("--compile", commands["large"])
        self.assertNotIn("reduce-overhead", commands["large"])
        self.assertNotIn("--compile", commands["large_pytorch"])
        self.assertIn("--compile reduce-overhead", commands["large_reduced"])
        self.assertEqual([r["precision"] for r in parts["large_f32"]["rows"]],
                         ["tf32"] * 14 + ["f32"] * 14)
        # One process of PyTorch had all cases of all parts.
        self.assertEqual(sum(line.startswith("python") for line in self.asked), 1)
        _, ok, _ = self.check("large", options=["--device", "cpu"])
        self.assertIsNone(ok["large"])

    def test_what_ours_has_is_left_out_a_thing_at_a_time(self):
        _, _, parts = self.check("without")
        models = collections.defaultdict(set)
        for row in parts["without"]["rows"]:
            models[row["program"]].add(row["model"].split(" (")[0])
        of = {"transformer", "bert", "resnet", "deepspeech2 whole layers", "nmt", "transformer big",
              "vgg"}
        self.assertEqual(models, {
            "Palimpsest, no graphs": of, "Palimpsest, no branches": of,
            "Palimpsest, no timed products": of,
            "Palimpsest, no cuDNN": {"resnet", "deepspeech2 whole layers", "vgg"},
            "Palimpsest, whole layers": {"deepspeech2", "nmt"},
            "Palimpsest, no whole layers": {"deepspeech2", "nmt"}})
        self.assertFalse(any("times large's" in row for row in parts["without"]["rows"]))
        asked = "\n".join(self.asked)
        for option in ["device.branches=false", "device.timed_products=false",
                       "model.whole_layers=false"]:
            self.assertIn(option, asked)

    def test_what_is_left_out_stands_beside_the_whole(self):
        _, _, parts = self.check("large,without")
        beside = [row.get("times large's") for row in parts["without"]["rows"]]
        self.assertEqual(beside, [1.0] * 24 + [None] * 4)  # the last four are other sizes

    def test_what_fails_does_not_stop_the_others(self):
        names = "first,tests,ranks,models,graphs,peaks,small"
        code, ok, parts = self.check(names, transformer_loss=2.1, plain_loss=1.9999, peak=704,
                                     tests=["A.it_fails", *TESTS, "Steps.it_fails", "OneRank.it_fails"])
        self.assertEqual(code, 1)
        self.assertEqual(ok, {"first": False, "tests": False, "ranks": False, "models": False,
                              "graphs": False, "peaks": False, "small": False})
        self.assertEqual([line for line in parts["tests"]["failed"] if "A.it_fails" in line],
                         ["A.it_fails: x_test.cc:1: Failure 1 is not 2"])
        off = {r["config"]: r.get("largest difference") for r in parts["models"]["rows"]}
        self.assertAlmostEqual(off["transformer_small"], 0.05)
        self.assertEqual(off["nmt_small"], 0)
        notes = {r["config"]: r.get("note") for r in parts["models"]["rows"]}
        self.assertEqual(notes["nmt_iwslt"], "data.root: it is not here")
        # PyTorch is not there, which it says; ours is.
        self.assertEqual(len(parts["small"]["rows"]), 12)
        self.assertEqual(len(parts["small"]["failed"]), 12)
        self.assertIn("PyTorch ended with exit code 1", parts["small"]["failed"][0])
        self.assertIn("| tests | FAILED |", self.page)
        self.assertIn("A.it_fails: x_test.cc:1: Failure 1 is not 2", self.page)
        said = (self.room / "out" / "log.txt").read_text()
        self.assertIn("== A.it_fails\nx_test.cc:1: Failure\n", said)

    def test_what_is_missing_is_skipped(self):
        _, ok, parts = self.check("peaks", bench=False)
        self.assertIsNone(ok["peaks"])
        self.assertIn("bench_step_bench", parts["peaks"]["note"])

    def test_the_page_begins_with_what_became_of_all(self):
        _, ok, parts = self.check("machine,peaks,small,sanitizer,large", peak=704)
        self.assertEqual(ok["small"], False)
        head = self.page.split("\n## ")[0]
        self.assertIn("device cuda (NVIDIA H200)", head)
        self.assertIn(" s. 1 of 5 parts are ok; FAILED: large, peaks, small; skipped: sanitizer.", head)
        self.assertIn("| there is no compute-sanitizer |", head)
        failed = parts["peaks"]["failed"]
        self.assertIn(f"| {len(failed)} failures, the first: {failed[0]} |", head)
        self.assertIn("## peaks: FAILED\n\nNo step touches a byte above its plan", self.page)
        # What was not measured is an empty cell.
        self.assertIsNone(parts["small"]["rows"][0]["of the ceiling"])
        self.assertNotIn("| None |", self.page)

    # ---- tests in processes ----

    def test_a_card_on_which_no_test_runs_fails(self):
        tests = [name.replace("passes", "skipped").replace("grad", "_skipped") for name in TESTS]
        _, ok, parts = self.check("tests", tests=tests)
        self.assertFalse(ok["tests"])
        self.assertEqual(parts["tests"]["failed"], ["no test ran: there is no GPU"])
        _, ok, parts = self.check("tests", tests=tests, options=["--device", "cpu"])
        self.assertIsNone(ok["tests"])
        self.assertEqual(parts["tests"]["note"], "there is no GPU")

    def test_what_googletest_prints_is_read(self):
        said = """[ RUN      ] A/B.fails/x
a_test.cc:1: Failure
1 is not 2
[  FAILED  ] A/B.fails/x, where GetParam() = 0x1 (3 ms)
[ RUN      ] A.skips
[  SKIPPED ] A.skips (0 ms)
[ RUN      ] A.passes
[       OK ] A.passes (12 ms)
[ RUN      ] A.crashes
[  FAILED  ] 1 test, listed below:
"""
        ended, at, _ = shards.outcomes(said)
        self.assertEqual(ended, {"A/B.fails/x": ("FAILED", "a_test.cc:1: Failure\n1 is not 2"),
                                 "A.skips": ("SKIPPED", ""), "A.passes": ("OK", "")})
        self.assertEqual(at, "A.crashes")

    def test_shards_run_at_the_same_time(self):
        _, ok, parts = self.check("tests", tests=[f"A.{n}_meets" for n in range(8)])
        self.assertTrue(ok["tests"], parts["tests"]["failed"])
        self.assertEqual(len(parts["tests"]["rows"]), 8)

    def test_every_test_is_run_once(self):
        _, _, parts = self.check("tests")
        asked = [t for line in self.asked if line.startswith("test_gpu") for t in line.split()[1:]]
        self.assertEqual(sorted(asked), sorted(TESTS))
        self.assertEqual(sum(r["run"] + r["skipped"] for r in parts["tests"]["rows"]), len(TESTS))
        self.assertEqual(sum(r["skipped"] for r in parts["tests"]["rows"]), 1)
        self.assertEqual(parts["tests"]["rows"][0]["cuDNN"], "9.19.0")

    def test_what_ends_a_process_costs_one_test(self):
        says = {"crashes": "ended its process (SIGABRT): a line before the end",
                "sticks": "left an error on the card that stays: A.it_sticks: an error stays: an illegal",
                "exits": "ended its process (exit code 0)", "hangs": "was not done in time"}
        for what, line in says.items():
            with self.subTest(what=what):
                # The third shard has it as the first of three.
                tests = [f"A.{n}_passes" for n in range(24)]
                tests[2] = "A.it_" + what
                _, ok, parts = self.check("tests", tests=tests, options=["--tests-timeout", "2"])
                self.assertFalse(ok["tests"])
                [failed] = parts["tests"]["failed"]
                self.assertIn(f"A.it_{what} {line}", failed)
                rows = {r["shard"]: r for r in parts["tests"]["rows"]}
                self.assertEqual([r["run"] for r in rows.values()], [3] * 8)
                self.assertEqual(rows["3 of 8"]["ended early"], 1)
                self.assertEqual(rows["3 of 8"]["failed"], 1)
                # The other processes were not started again.
                self.assertEqual(sum(line.startswith("test_gpu") for line in self.asked), 9)

    def test_a_shard_is_given_up_in_the_end(self):
        tests = [f"OneRank.{n}_crashes" for n in range(20)]
        _, ok, parts = self.check("ranks", tests=tests)
        self.assertFalse(ok["ranks"])
        self.assertEqual(parts["ranks"]["rows"][0]["ended early"], 8)
        self.assertIn("12 tests did not run, the first is OneRank.8_crashes",
                      parts["ranks"]["failed"][-1])
        begin = time.monotonic()
        _, _, parts = self.check("ranks", tests=[f"OneRank.{n}_hangs" for n in range(20)],
                                 options=["--tests-timeout", "3"])
        self.assertLess(time.monotonic() - begin, 30)
        self.assertIn("18 tests did not run", parts["ranks"]["failed"][-1])

    def test_a_program_that_does_not_start_is_not_started_again(self):
        _, ok, parts = self.check("ranks", no_start=True)
        self.assertFalse(ok["ranks"])
        self.assertEqual(len(self.asked), 1)
        self.assertIn("libsome.so", "".join(parts["ranks"]["failed"]))

    # ---- what is recorded, predicted and kept ----

    def test_a_step_that_is_not_recorded_fails(self):
        _, ok, parts = self.check("large,without,small", recorded=False)
        self.assertEqual(ok, {"large": False, "without": False, "small": False})
        self.assertIn("transformer (base, 832 sentences of 30 words: 25,000 tokens a side), bf16, "
                      "Palimpsest: the step was not recorded", parts["large"]["failed"])
        self.assertEqual(len(parts["large"]["rows"]), 8)  # it is shown all the same
        not_recorded = "".join(parts["without"]["failed"])
        self.assertIn("no branches: the step was not recorded", not_recorded)
        self.assertNotIn("no graphs: the step was not recorded", not_recorded)
        _, ok, parts = self.check("without", recorded=False, options=["--device", "cpu"])
        self.assertTrue(ok["without"], parts["without"]["failed"])

    def test_graphs_are_of_recorded_runs(self):
        why = "cudaErrorStreamCaptureUnsupported"
        _, ok, parts = self.check("graphs", refused=why)
        self.assertFalse(ok["graphs"])
        self.assertIn("nmt_small: warning: a step is not recorded, and runs node by node: " + why,
                      parts["graphs"]["failed"])
        self.assertEqual([r["recorded"] for r in parts["graphs"]["rows"]], [False] * 4)
        _, ok, parts = self.check("graphs")
        self.assertTrue(ok["graphs"])
        self.assertEqual([r["recorded"] for r in parts["graphs"]["rows"]], [True] * 4)

    def test_measured_stands_beside_predicted(self):
        for card, profile in [("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100")]:
            _, _, parts = self.check("large,operators", card=card)
            row = parts["large"]["rows"][0]
            self.assertIn(f"--profile {profile} ", parts["large"]["commands"][0])
            self.assertEqual(row["predicted ms"], 8.0)
            self.assertEqual(row["measured / predicted"], 1.25)
            self.assertEqual(parts["operators"]["rows"][0]["measured / predicted"], 2.0)
        _, _, parts = self.check("large,operators", card="Some Card")
        self.assertNotIn("--profile", "".join(parts["large"]["commands"]))
        self.assertNotIn("predicted ms", parts["large"]["rows"][0])

    def test_large_steps_are_looked_at_closely(self):
        _, ok, parts = self.check("peaks,operators")
        self.assertEqual(ok, {"peaks": True, "operators": True})
        for part in ["peaks", "operators"]:
            seen = [(r["model"].split(" (")[0], r["precision"]) for r in parts[part]["rows"]]
            self.assertEqual(seen[:4], [(model, "bf16") for model in
                                        ["transformer", "bert", "resnet", "deepspeech2 whole layers"]])
            self.assertEqual([precision for _, precision in seen[4:]], ["f32"] * 4)
        # One process of each case for both.
        bench = [line for line in self.asked if line.startswith("bench")]
        self.assertEqual(len(bench), 8)
        self.assertTrue(all("--operators --canary" in line for line in bench))

    def test_a_peak_may_be_below_the_plan(self):
        _, ok, _ = self.check("peaks", peak=576)
        self.assertTrue(ok["peaks"])

    def test_whose_code_runs_is_kept(self):
        _, _, parts = self.check("large")
        self.assertEqual(len(parts["large"]["code"]), 8)
        name = "bert (base, batch 32, 512 words), bf16"
        self.assertEqual(parts["large"]["code"][name]["matmul"], {"cuBLASLt": 7, "a kernel of ours": 1})
        self.assertIn(f"- {name}, by whose code:\n  - matmul: cuBLASLt (7), a kernel of ours (1)",
                      self.page)

    def test_ceilings_stand_beside_what_came_before(self):
        _, _, parts = self.check("large,ceilings,small", python="fake")
        self.assertEqual(parts["large"]["rows"][0]["products TFLOP/s"], 2.0)
        self.assertEqual(parts["large"]["rows"][0]["of the ceiling"], 0.5)
        ours = [r for r in parts["small"]["rows"] if r["program"] == "Palimpsest"]
        self.assertEqual([r["of the ceiling"] for r in ours], [0.5] * 4 + [1.0] * 4 + [None] * 4)

    def test_algorithms_are_kept_and_shared(self):
        self.check("large")
        self.assertEqual(self.files, ["algorithms.txt", "results.json", "results.md"])
        kept = (self.room / "out" / "algorithms.txt").read_text().splitlines()
        self.assertEqual(len(kept), 8)  # a line of each run of the one file
        self.check("large", kill_when=lambda parts: len(parts["large"]["rows"]) >= 2)
        kept = (self.room / "out" / "algorithms.txt").read_text().splitlines()
        self.assertGreaterEqual(len(kept), 2)

    # ---- PyTorch's process ----

    def test_pytorch_goes_on_behind_a_case(self):
        for what, line in [("pytorch_fails", "OutOfMemoryError: CUDA out of memory"),
                           ("pytorch_crashes", "PyTorch ended with exit code 1: a crash in PyTorch"),
                           ("pytorch_hangs", "PyTorch was not done in 2 s")]:
            with self.subTest(what=what):
                _, _, parts = self.check("large_pytorch", python="fake", options=["--timeout", "2"],
                                         **{what: "pytorch_bert.py"})
                self.assertEqual(parts["large_pytorch"]["failed"],
                                 ["bert (base, batch 32, 512 words), bf16, PyTorch: " + line])
                self.assertEqual(len(parts["large_pytorch"]["rows"]), 6)
                starts = sum(line.startswith("python") for line in self.asked)
                self.assertEqual(starts, 1 if what == "pytorch_fails" else 2)

    def test_pytorch_compiles_while_nothing_is_timed(self):
        self.check("tests,ranks,graphs,large", python="fake", tests=[*TESTS, "OneRank.it_sleeps"],
                   sleep=3.5)
        ahead = [i for i, line in enumerate(self.asked) if line.startswith("ahead")]
        timed = [i for i, line in enumerate(self.asked) if line.startswith(("bench", "pytorch "))]
        self.assertTrue(ahead)
        self.assertLess(ahead[-1], timed[0])
        # Nor while NCCL's bytes on the card are counted.
        ranks = self.asked.index("test_gpu OneRank.gives_passes OneRank.it_sleeps")
        pal = next(i for i, line in enumerate(self.asked) if line.startswith("pal"))
        self.assertLessEqual(sum(ranks < i < pal for i in ahead), 1)  # as it goes on
        self.assertIn("--compile", self.asked[ahead[0]])
        self.check("large", python="fake")
        self.assertFalse([line for line in self.asked if line.startswith("ahead")])

    def test_scripts_of_pytorch_share_a_process(self):
        folder = self.room / "compare"
        (folder / "torch").mkdir(parents=True)
        shutil.copy(ROOT / "bench/compare/pytorch_cases.py", folder)
        (folder / "torch/__init__.py").write_text(
            "from types import SimpleNamespace\nfree = []\ncuda = SimpleNamespace(\n"
            "    is_initialized=lambda: True, synchronize=lambda: 1 / len(free),\n"
            "    empty_cache=lambda: None, memory_reserved=lambda: 0)\n")
        (folder / "prints.py").write_text("import json, os, sys, torch\ntorch.free.append(1)\n"
                                          "os.system('echo a child says')\nprint('first')\n"
                                          "print(json.dumps([os.getpid(), sys.argv[1:]]))\n")
        (folder / "raises.py").write_text("raise ValueError('no such\\nsize')\n")
        (folder / "exits.py").write_text("import sys\nsys.exit('usage')\n")
        (folder / "breaks.py").write_text("import torch\ntorch.free.clear()\nraise ValueError('card')\n")
        cases = [["prints.py", 5], ["raises.py"], ["exits.py"], ["none.py"], ["prints.py"],
                 ["breaks.py"], ["prints.py"]]
        done = subprocess.run([sys.executable, folder / "pytorch_cases.py"], text=True,
                              input="".join(json.dumps(c) + "\n" for c in cases),
                              capture_output=True, check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(answers[0]["result"][1], ["5"])
        self.assertEqual(answers[1], {"error": "ValueError: no such"})
        self.assertEqual(answers[2], {"error": "SystemExit: usage"})
        self.assertIn("FileNotFoundError", answers[3]["error"])
        self.assertEqual(answers[4]["result"][0], answers[0]["result"][0])
        # A card that cannot go on is left to another process.
        self.assertEqual(answers[5:], [{"error": "ValueError: card", "ends": True}])
        self.assertEqual(done.returncode, 1)

    # ---- time ----

    def test_it_ends_in_time(self):
        begin = time.monotonic()
        # What a command starts ends with it: nobody else would end that sleep.
        _, ok, parts = self.check("tests,graphs,peaks", tests=[*TESTS, "A.it_hangs"],
                                  options=["--seconds", "6"])
        self.assertLess(time.monotonic() - begin, 12)
        self.assertIsNone(ok["tests"])
        self.assertEqual(parts["tests"]["note"], "time was up in A.it_hangs")
        self.assertEqual(len(parts["tests"]["rows"]), 8)
        self.assertEqual(parts["peaks"]["note"], "no time was left")

    def test_a_case_may_have_a_time_of_its_own(self):
        file = self.room / "cases.json"
        file.write_text(json.dumps({
            "slow": {"what": "one", "ours": ["--set", "slow=true"], "seconds": 1},
            "quick": {"what": "other", "ours": []}}))
        _, ok, parts = self.check("large", options=["--cases", file])
        self.assertFalse(ok["large"])
        self.assertEqual(parts["large"]["failed"], ["slow (one), bf16, Palimpsest: not done in 1 s"])
        self.assertEqual([r["model"] for r in parts["large"]["rows"]], ["quick (other)"])
        unrolled = list(json.loads((ROOT / "bench/compare/large_cases.json").read_text()).items())[-1]
        self.assertEqual((unrolled[0], unrolled[1]["seconds"]), ("deepspeech2 unrolled", 60))

    def test_a_case_that_does_not_fit_is_one_line(self):
        _, _, parts = self.check("large", bench_error="the plan needs 90 GB, the card has 78")
        self.assertIn("bert (base, batch 32, 512 words), bf16, Palimpsest: exit code 1: the plan needs "
                      "90 GB, the card has 78", parts["large"]["failed"])
        self.assertFalse(any("\n" in line for line in parts["large"]["failed"]))

    def test_a_kill_at_any_moment_leaves_whole_results(self):
        seed = random.randrange(1 << 30)
        draw = random.Random(seed)
        for _ in range(int(os.environ.get("PAL_KILLS", "6"))):
            after = draw.uniform(0, 2)
            with self.subTest(seed=seed, after=after):
                _, _, parts = self.check("first,tests,ranks,graphs,large,peaks", kill_after=after)
                for name in parts:  # both files are whole: the page has at least what came before
                    if name != list(parts)[-1]:
                        self.assertIn(f"| {name} |", self.page)
                self.assertTrue(self.page.endswith("\n") or not self.page)

    def test_a_kill_leaves_what_there_was(self):
        tests = [*(f"A.{n}_passes" for n in range(7)), "A.it_sleeps"]
        for rows in [0, 1, 7]:  # read over and over until there are so many
            code, ok, parts = self.check(
                "tests,graphs", tests=tests, sleep=3,
                kill_when=lambda parts, rows=rows: "tests" in parts
                and len(parts["tests"]["rows"]) >= rows)
            self.assertLess(code, 0)
            self.assertGreaterEqual(len(parts["tests"]["rows"]), rows)
            self.assertFalse(parts["tests"]["ended"])
            self.assertIn("| tests | did not end |", self.page)

    def test_a_signal_ends_all_that_was_started(self):
        begin = time.monotonic()
        code, _, parts = self.check(
            "tests,large", python="fake", tests=[f"A.{n}_hangs" for n in range(8)],
            kill_with=signal.SIGTERM,
            kill_when=lambda parts: sum("test_gpu" in c for c in parts["tests"]["commands"]) >= 1
            if "tests" in parts else False)
        self.assertEqual(code, 128 + signal.SIGTERM)
        self.assertLess(time.monotonic() - begin, 20)
        time.sleep(0.3)
        self.assertFalse(running_in(self.room))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
