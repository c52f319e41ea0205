"""What scripts/load says of programs that only pretend to transcribe. Run by ctest."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

PRETENDER = """#!/usr/bin/env python3
import pathlib, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
print("transcribing with x", file=sys.stderr)
if sys.argv[1:] != ["transcribe", "--model", sys.argv[3], "--beam", "3", "-"]: sys.exit(7)
held, count, bad = [], 0, 0
def out(name, text):
    print(name + "\\t" + text, flush=True)
for line in sys.stdin:
    name = line.rstrip("\\n")
    count += 1
    file = pathlib.Path(name)
    if not file.exists() or file.stat().st_size <= 300:
        bad += 1
        print("warning: " + name, file=sys.stderr)
        continue
    CHANGE
    out(name, file.name)
print(f"pal: {bad} of {count} files could not be transcribed (above)", file=sys.stderr)
sys.exit(2)
"""


class Whole(unittest.TestCase):
    def load(self, change="pass", replace=("", ""), inputs="6000"):
        with tempfile.TemporaryDirectory() as name:
            pal = pathlib.Path(name) / "pal"
            pal.write_text(PRETENDER.replace("CHANGE", change).replace(*replace))
            pal.chmod(0o755)
            done = subprocess.run([sys.executable, ROOT / "scripts" / "load", "transcribe", "--model", name, "--pal", pal, "--inputs", inputs, "--",
                                   "--beam", "3"],
                                  capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def test_a_sound_program(self):
        code, said, wrong = self.load()
        self.assertEqual((code, wrong), (0, ""), said)
        self.assertIn("0 out of order, 0 other than the first to their input (420 kinds); exit status 2, 6 warnings, and: pal: 6 of 6000", said)
        self.assertIn("early: exit by signal 13, quiet", said)

    def wrong_of(self, *change):
        code, _, wrong = self.load(*change)
        self.assertEqual(code, 1)
        return wrong.replace("scripts/load: transcribe: ", "").splitlines()

    def test_order(self):
        swapped = "if count == 70: held.append(name); continue\n    if count == 71: out(name, file.name); name = held[0]"
        self.assertIn("answers are out of order, or change", self.wrong_of(swapped))

    def test_answers_that_change(self):
        self.assertEqual(self.wrong_of("if count == 2000: file = pathlib.Path('other')"), ["answers are out of order, or change"])

    def test_a_missing_answer(self):
        self.assertIn("5993 answers, of 5994", self.wrong_of("if count == 6000: continue"))

    def test_memory_that_rises(self):
        self.assertEqual(self.wrong_of("held.append(bytes(3000) + b'x')"), ["memory rises with the inputs"])

    def test_bad_ones_that_are_not_counted(self):
        self.assertEqual(self.wrong_of("pass", ("bad += 1", "bad += count % 2")), ["the bad ones are not counted"])
        self.assertEqual(self.wrong_of("pass", ("sys.exit(2)", "sys.exit(0)")), ["the bad ones are not counted"])

    def test_a_loud_end(self):
        self.assertEqual(self.wrong_of("pass", ("SIG_DFL", "SIG_IGN")), ["it does not end quietly when its reader stops"])

    def test_refusals(self):
        done = subprocess.run([sys.executable, ROOT / "scripts" / "load", "classify", "--model", "x", "--pal", "none"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "scripts/load: none is no program; build pal, or name it with --pal\n"))


if __name__ == "__main__":
    unittest.main()
