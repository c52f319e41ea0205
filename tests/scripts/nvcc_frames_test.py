"""scripts/nvcc-frames with a compiler that only pretends: what it lets through, what it refuses, and
that it reads what ptxas says. Run by ctest."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts" / "nvcc-frames"
LIST = ROOT / "tests" / "gpu" / "stack_frames.txt"


def said_of(kernel, architecture="sm_90", frame=0, spilled=0):
    return f"""ptxas info    : Compiling entry function '{kernel}' for '{architecture}'
ptxas info    : Function properties for {kernel}
    {frame} bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers
"""


GOOD = "_ZN3pal11good_kernelEPf"


def entries():
    """The list's kernels, each with the bytes that it may take."""
    lines = [line.split() for line in LIST.read_text().splitlines() if not line.startswith("#")]
    return [(name, int(most)) for name, most, *_ in lines]


class NvccFrames(unittest.TestCase):
    def compile(self, log, code=0):
        """Exit code, stderr, and whether the object is there."""
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / "a.o"
            compiler = pathlib.Path(folder) / "nvcc"
            compiler.write_text(f"#!/bin/sh\necho object >\"$3\"\ncat >&2 <<'END'\n{log}END\nexit {code}\n")
            compiler.chmod(0o755)
            done = subprocess.run([sys.executable, SCRIPT, compiler, "-c", "-o", made],
                                  capture_output=True, text=True, check=False)
            return done.returncode, done.stderr, made.exists()

    def test_kernels_without_frames_pass_and_nothing_is_said(self):
        self.assertEqual(self.compile(said_of(GOOD)), (0, "", True))

    def test_a_frame_is_refused_and_the_object_is_gone(self):
        code, said, made = self.compile(said_of(GOOD) + said_of("_ZN3pal10bad_kernelEPf", frame=8,
                                                                 spilled=4))
        self.assertEqual((code, made), (1, False))
        self.assertIn("_ZN3pal10bad_kernelEPf has a stack frame of 8 bytes and spills 4, with 24"
                      " registers; 0 are allowed", said)
        self.assertNotIn("good_kernel", said)

    def test_other_architectures_are_as_they_are(self):
        self.assertEqual(self.compile(said_of(GOOD, "sm_75", frame=8)), (0, "", True))

    def test_what_is_listed_may_take_so_much_and_has_to_take_something(self):
        name, most = entries()[0]
        listed = f"_ZN3pal53_GLOBAL__N__e_{len(name)}{name}E6Stored"
        self.assertEqual(self.compile(said_of(listed, frame=most))[0], 0)
        code, said, _ = self.compile(said_of(listed, frame=most + 8))
        self.assertEqual(code, 1)
        self.assertIn(f"{most} are allowed", said)
        code, said, _ = self.compile(said_of(listed))
        self.assertEqual(code, 1)
        self.assertIn(f"{name} has no stack frame any more", said)
        # One instance of a template may do without.
        self.assertEqual(self.compile(said_of(listed, frame=most) + said_of(listed + "2"))[0], 0)

    def test_warnings_and_failures_are_the_compilers(self):
        code, said, _ = self.compile("a.cu(1): error: no\n" + said_of(GOOD), code=2)
        self.assertEqual((code, said), (2, "a.cu(1): error: no\n"))

    def test_the_list_names_kernels_that_there_are(self):
        sources = "".join(p.read_text() for top in ("core", "ops") for p in (ROOT / top).rglob("*.cu*"))
        sources += "".join(p.read_text() for p in (ROOT / "ops").rglob("cuda_*.h"))
        self.assertGreater(len(entries()), 0)
        for name, _ in entries():
            self.assertRegex(sources, rf"__global__[^;{{]*\b{re.escape(name)}\(", name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
