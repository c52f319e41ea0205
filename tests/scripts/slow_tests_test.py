"""tests/slow_tests.txt beside the tests that there are, which `ctest -N` lists in the folder of the
build: every line names some. Run by ctest with that folder."""
import fnmatch
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path()


class SlowTests(unittest.TestCase):
    def test_every_line_names_tests(self):
        listed = subprocess.run(["ctest", "--test-dir", BUILD, "-N"], capture_output=True,
                                text=True, check=True).stdout
        names = re.findall(r"^ *Test +#\d+: (.*)$", listed, re.M)
        lines = [line for line in (ROOT / "tests" / "slow_tests.txt").read_text().splitlines()
                 if line and not line.startswith("#")]
        self.assertGreater(len(lines), 10)
        self.assertEqual([line for line in lines if not fnmatch.filter(names, line)], [])
        slow = {name for line in lines for name in fnmatch.filter(names, line)}
        self.assertLess(len(slow), len(names) / 5)


if __name__ == "__main__":
    BUILD = sys.argv.pop()
    unittest.main(argv=sys.argv)
