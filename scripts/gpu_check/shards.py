"""Tests in processes of which each runs some. A test that ends its process, or never ends, costs itself
alone: another process goes on behind it.
"""
import json
import os
import re
import subprocess

from gpu_check import processes
from gpu_check.report import one_line
from gpu_check.visit import OutOfTime

# The exit status of a process whose card has an error that stays (tests/gpu/lasting_errors.cc).
LASTING_ERROR = 86
MOST_ENDS = 8  # processes of a shard that end before their tests have
MOST_HANGS = 2  # of these, such as were not done in time
PROPERTIES = {"cudnn": "cuDNN", "nccl_bytes": "NCCL bytes"}
LINE = re.compile(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] ([^\s,]+)")


def listed(said):
    """The tests that --gtest_list_tests prints, but such as are switched off."""
    names, suite = [], ""
    for line in said.splitlines():
        line = line.split("#")[0].rstrip()
        if line.startswith("  "):
            names.append(suite + line.strip())
        elif line.endswith("."):
            suite = line
    return [name for name in names if "DISABLED_" not in name]


def outcomes(said):
    """What became of each test (OK, FAILED, SKIPPED) and what it said; the one under way, likewise."""
    ended, said_of, at = {}, [], None
    for line in said.splitlines():
        found = LINE.search(line)
        what, name = (found[1], found[2]) if found else (None, None)
        if what == "RUN":
            at, said_of = name, []
        elif what and name == at:
            ended[at] = (what, "\n".join(said_of))
            at = None
        else:
            said_of.append(line)
    return ended, at, "\n".join(said_of)


def how_it_ended(code):
    if code is None:
        return "was not done in time"
    if code == LASTING_ERROR:
        return "left an error on the card that stays"
    return f"ended its process ({processes.code(code)})"


def properties(report):
    """What tests recorded of themselves."""
    suites = json.loads(report.read_text())["testsuites"]
    return {PROPERTIES[key]: value for suite in suites for test in suite["testsuite"]
            for key, value in test.items() if key in PROPERTIES}


class Shard:
    """Some tests, in as many processes as they need."""

    def __init__(self, visit, name, tests):
        self.visit, self.name, self.tests = visit, name, list(tests)
        self.report = visit.folder / f"tests-{re.sub('[^a-z0-9]+', '-', name)}.json"
        self.row = {"shard": name, "tests": len(tests), "run": 0, "failed": 0, "skipped": 0}

    def run(self):
        """The row of it, which is added; OutOfTime where the visit ends before."""
        ends = hangs = 0
        try:
            while self.tests and ends < MOST_ENDS and hangs < MOST_HANGS:
                before = len(self.tests)
                code = self.process()
                if self.report.exists():  # it came to its end
                    break
                ends, hangs = ends + 1, hangs + (code is None)
                self.row["ended early"] = ends
                if len(self.tests) == before:  # it did not come as far as a test
                    break
            if self.tests:
                self.visit.fail(f"shard {self.name}: {len(self.tests)} tests did not run, the first "
                                f"is {self.tests[0]}")
        finally:
            self.visit.add(self.row)
        return self.row

    def process(self):
        """How a process with the tests that are left ended; None: not in time."""
        self.report.unlink(missing_ok=True)
        flags = self.report.with_suffix(".flags")
        flags.write_text(f"--gtest_filter={':'.join(self.tests)}\n"
                         f"--gtest_output=json:{self.report}\n")
        env = {key: value for key, value in os.environ.items() if not key.startswith("GTEST_")}
        env.setdefault("OMP_WAIT_POLICY", "passive")  # many processes have the same processors
        try:
            done = self.visit.run_to_its_end(
                [self.visit.program("test_gpu"), f"--gtest_flagfile={flags}"],
                self.visit.args.tests_timeout, env)
            code, said, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            code, said, err = None, error.stdout, error.stderr
        ended, at, tail = outcomes(said)
        self.count(ended)
        if not self.report.exists() or code not in (0, 1):
            self.visit.keep(f"shard {self.name} {how_it_ended(code)}", f"{tail}\n{err}")
        self.tests = [test for test in self.tests if test not in ended and test != at]
        if code is None and self.visit.is_over():
            raise OutOfTime(f"time was up in {at or 'no test'}")
        if self.report.exists():
            self.row |= properties(self.report)
            if code not in (0, 1):  # 1: of its tests some failed
                self.visit.fail(f"shard {self.name} {how_it_ended(code)} behind its last test: "
                                + one_line(err[-400:]))
        else:
            self.row["run"] += at is not None
            self.row["failed"] += at is not None
            self.visit.fail(f"{at or 'shard ' + self.name} {how_it_ended(code)}: "
                            + one_line((tail + "\n" + err)[-400:]))
        return code

    def count(self, ended):
        for name, (how, said) in ended.items():
            self.row["skipped" if how == "SKIPPED" else "run"] += 1
            if how == "SKIPPED":
                self.row.setdefault("the first because", "".join(said.splitlines()[-1:]))
            if how == "FAILED":
                self.row["failed"] += 1
                self.visit.keep(name, said)
                self.visit.fail(f"{name}: {one_line(said)}")


def run(visit, name, tests):
    return Shard(visit, name, tests).run()
