"""What scripts/soak makes of figures, and a soak of a program that only pretends to train. Run by ctest."""
import importlib.machinery
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
import soak_figures as figures  # noqa: E402

loader = importlib.machinery.SourceFileLoader("soak", str(ROOT / "scripts" / "soak"))
soak = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak", loader))
loader.exec_module(soak)


class Lines(unittest.TestCase):
    def test_slope_error_and_height(self):
        slope, error, height = figures.line_through([(x, 7 + 2 * x) for x in range(3, 20)])
        self.assertAlmostEqual(slope, 2)
        self.assertAlmostEqual(error, 0)
        self.assertAlmostEqual(height, 13)
        # By hand: residuals of (0,0) (1,1) (2,0) (3,1) about the line 0.2 x + 0.2 have squares of 0.8 in all;
        # the error is sqrt(0.8 / 2 / 5), and neighbours differ, which makes it no smaller.
        slope, error, height = figures.line_through([(0, 0), (1, 1), (2, 0), (3, 1)])
        self.assertAlmostEqual(slope, 0.2)
        self.assertAlmostEqual(error, 0.08 ** 0.5)
        self.assertAlmostEqual(height, 0.2)
        with self.assertRaisesRegex(ValueError, "3 points are too few"):
            figures.line_through([(0, 1), (1, 1), (2, 1)])

    def test_the_error_is_that_of_many_runs(self):
        """Slopes of noise scatter as their errors say, also where neighbours resemble each other."""
        draw = random.Random(1)
        for keep in (0, 0.6):
            slopes, errors = [], []
            for _ in range(400):
                value, points = 0, []
                for x in range(60):
                    value = keep * value + draw.gauss(0, 1)
                    points.append((x, value))
                slope, error, _ = figures.line_through(points)
                slopes.append(slope)
                errors.append(error)
            scatter = (sum(s * s for s in slopes) / len(slopes)) ** 0.5
            self.assertAlmostEqual(scatter / (sum(errors) / len(errors)), 1, delta=0.25, msg=keep)

    def test_medians_pass_over_tails_and_empty_blocks(self):
        points = [(t, 1000 if t % 10 == 0 else 5) for t in range(100) if not 40 <= t < 50]
        medians = figures.block_medians(points, 0, 100, blocks=10)
        self.assertEqual(medians, [(5 + 10 * b, 5) for b in range(10) if b != 4])

    def test_steps_of_two_buckets_are_alike(self):
        rows = [{"t": t, "peak_bytes": 10 + t % 2, "step_ms": 40 if t % 2 else 20} for t in range(9)]
        self.assertEqual(len({value for _, value in figures.steps_alike(rows)}), 1)
        rows[4]["step_ms"] = 60  # three times its like
        alike = [value for _, value in figures.steps_alike(rows)]
        self.assertAlmostEqual(alike[4], 3 * alike[3])

    def test_processor_time_is_no_wait(self):
        """For half of the time another program has the processor, and steps take twice as long."""
        samples = [{"t": t, "own": t if t < 40 else 40 + (t - 40) / 2} for t in range(81)]
        steps = [(t + 0.5, 10 if t < 40 else 20) for t in range(80)]
        alike = figures.processor_times(steps, samples)
        self.assertEqual([t for t, _ in alike], [t for t, _ in steps])
        for _, value in alike:
            self.assertAlmostEqual(value, 10)

    def test_the_warm_up_waits_for_programs_of_the_first_half(self):
        self.assertEqual(figures.warm_up_of([2, 3], 100), 10)
        self.assertEqual(figures.warm_up_of([2, 30, 90], 100), 30)


class Verdicts(unittest.TestCase):
    def verdict(self, of, series):
        return figures.judge([(t, of(t)) for t in range(1000)], 100, 1000, figures.SERIES[series])["verdict"]

    def test_rises_levels_and_falls(self):
        draw = random.Random(2)
        noise = [draw.gauss(0, 3) for _ in range(1000)]
        self.assertEqual(self.verdict(lambda t: 100, "memory"), "level")
        self.assertEqual(self.verdict(lambda t: 100 + noise[t], "memory"), "level")
        self.assertEqual(self.verdict(lambda t: 100 + t / 2500, "memory"), "level")  # 0.36 % of the run's height
        self.assertEqual(self.verdict(lambda t: 100 + t / 500, "memory"), "rises")
        self.assertEqual(self.verdict(lambda t: 100 + noise[t] + t / 100, "memory"), "rises")
        self.assertEqual(self.verdict(lambda t: 100 - t / 500, "memory"), "falls")
        self.assertEqual(self.verdict(lambda t: 5 + t // 300, "files"), "rises")
        self.assertEqual(self.verdict(lambda t: 5 + (t > 980), "files"), "level")
        self.assertEqual(self.verdict(lambda t: 50 + t / 100 + noise[t], "step"), "rises")

    def test_slopes_are_an_hours(self):
        found = figures.judge([(t, 100 + t / 36) for t in range(1000)], 100, 1000, figures.SERIES["memory"])
        self.assertAlmostEqual(found["slope_per_hour"], 100, delta=0.2)
        self.assertAlmostEqual(found["drift"], 25, delta=0.1)

    def test_steps_that_take_no_tick_of_the_clock(self):
        found = figures.judge([(t, 0) for t in range(1000)], 100, 1000, figures.SERIES["processor"])
        run = {"name": "bert", "samples": [{"t": 1000}], "steps": [{"step": 5}], "verdicts": {"processor": found}}
        self.assertIn("level", figures.table_of([run]))


class Reading(unittest.TestCase):
    def test_proc(self):
        status = "Name:\tpal\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\nRssAnon:\t 50 kB\nThreads:\t7\nVmPeak:\t 9 kB\n"
        self.assertEqual(soak.of_status(status), {"VmHWM": 307200, "VmRSS": 204800, "RssAnon": 51200, "Threads": 7})
        tick = soak.os.sysconf("SC_CLK_TCK")
        words = ["9", "(a) b)", "R"] + [str(n) for n in range(4, 20)]  # the 14th and the 15th are its ticks
        self.assertAlmostEqual(soak.own_seconds(" ".join(words)), (14 + 15) / tick)
        self.assertAlmostEqual(soak.busy_seconds("cpu 100 20 30 4000 500 6 7 8 0 0\ncpu0 1"), (100 + 20 + 30 + 6 + 7 + 8) / tick)

    def test_its_own_process(self):
        sample = soak.sample_of(soak.os.getpid(), 3)
        self.assertEqual((sample["t"], sample["threads"]), (3, 1))
        self.assertGreater(sample["memory"], 1 << 20)
        with open("/dev/null", "rb"):
            self.assertEqual(soak.sample_of(soak.os.getpid(), 3)["files"], sample["files"] + 1)
        gone = subprocess.Popen(["true"])
        gone.wait()
        self.assertIsNone(soak.sample_of(gone.pid, 3))

    def test_rows_are_read_once_and_whole(self):
        with tempfile.TemporaryDirectory() as name:
            path = pathlib.Path(name) / "metrics.jsonl"
            metrics = soak.Metrics(path)
            self.assertEqual(metrics.news(1), [])
            path.write_text('{"event":"step","step":1}\n{"event":"st')
            self.assertEqual(metrics.news(2), [{"event": "step", "step": 1, "t": 2}])
            path.write_text('{"event":"step","step":1}\n{"event":"step","step":2}\n')
            self.assertEqual(metrics.news(3), [{"event": "step", "step": 2, "t": 3}])
            self.assertEqual(metrics.news(4), [])


PRETENDER = """#!/usr/bin/env python3
import json, pathlib, signal, sys, time
words = sys.argv[1:]
if words[0] != "train" or "--resume" in words:
    sys.exit(3 if words[0] == "FAILS" else 0)
out = pathlib.Path(words[words.index("--out") + 1])
out.mkdir()
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
held, step = [], 0
with open(out / "metrics.jsonl", "w", buffering=1) as file:
    print(json.dumps({"event": "plan", "step": 0}), file=file)
    while not stop:
        time.sleep(0.01)
        step += 1
        if LEAK: held.append(bytearray(LEAK))
        if step % 20 == 0: FILES
        print(json.dumps({"event": "step", "step": step, "step_ms": 10, "peak_bytes": 1, "loss": 1}), file=file)
    print(json.dumps({"event": "end", "step": step, "process_peak_bytes": 1}), file=file)
sys.exit(ENDS)
"""


class Whole(unittest.TestCase):
    def soak(self, leak="0", files="pass", ends="130", fails="", names=("bert",)):
        with tempfile.TemporaryDirectory() as name:
            pal, out = pathlib.Path(name) / "pal", pathlib.Path(name) / "out"
            text = PRETENDER.replace("LEAK", leak).replace("ENDS", ends).replace("FAILS", fails).replace("FILES", files)
            pal.write_text(text)
            pal.chmod(0o755)
            command = [sys.executable, ROOT / "scripts" / "soak", *names, "--minutes", "0.05", "--out", out, "--pal", pal]
            done = subprocess.run(command, capture_output=True, text=True)
            again = subprocess.run(command + ["--again"], capture_output=True, text=True)
            self.assertEqual((again.returncode, again.stderr), (done.returncode, done.stderr))
            if out.exists():
                xml.etree.ElementTree.parse(out / "soak.svg")
                found = json.loads((out / "soak.json").read_text())["runs"][0]
                self.assertGreater(len(found["samples"]), 30)
                self.assertIn("--set train.keep_last=2", found["command"])
        return done.returncode, done.stdout, done.stderr

    def test_a_level_program(self):
        code, said, wrong = self.soak()
        self.assertEqual((code, wrong), (0, ""), said)
        self.assertEqual(said.splitlines()[-1].split()[-1], "level")

    def test_one_that_leaks(self):
        code, said, wrong = self.soak(leak="300000")
        self.assertEqual(code, 1)
        self.assertIn("scripts/soak: bert: memory rises\n", wrong)

    def test_one_that_leaves_files_open(self):
        code, _, wrong = self.soak(files="held.append(open('/dev/null'))")
        self.assertEqual(code, 1)
        self.assertIn("scripts/soak: bert: open files rises\n", wrong)

    def test_one_that_dies(self):
        code, _, wrong = self.soak(ends="6")
        self.assertEqual(code, 1)
        self.assertIn("bert: pal train ended with 6", wrong)

    def test_a_command_that_fails(self):
        code, _, wrong = self.soak(fails="eval")
        self.assertEqual(code, 1)
        self.assertIn("bert: pal eval ended with 3", wrong)

    def test_refusals(self):
        for words, why in ((["gpt"], "no trainer gpt; there are: nmt, "), (["--minutes", "0"], "--minutes is above 0"),
                           (["--pal", "none"], "none is no program"), (["--again", "--out", "none"], "none/soak.json is not there"),
                           (["--pal", sys.executable, "--out", ROOT / "docs"], "docs is not empty")):
            done = subprocess.run([sys.executable, ROOT / "scripts" / "soak", *words], capture_output=True, text=True, cwd="/")
            self.assertEqual(done.returncode, 1)
            self.assertIn(why, done.stderr)


if __name__ == "__main__":
    unittest.main()
