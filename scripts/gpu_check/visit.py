"""A visit to a machine: its time, its commands, and its results, which are written after every row."""
import datetime
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time

from gpu_check import processes
from gpu_check.report import markdown, one_line, state, why, write_whole

LEAST_SECONDS = 2  # what is worth a start


class Skipped(Exception):
    """A part, or a piece of one, that cannot be done here."""


class OutOfTime(Skipped):
    """What is left of --seconds is not worth a start."""


class Visit:
    def __init__(self, args):
        self.args = args
        self.out = args.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.results = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(),
                        "device_asked_for": args.device, "card": None, "seconds": 0, "parts": {}}
        self.commands, self.result, self.lock = [], {}, threading.RLock()
        (self.out / "log.txt").unlink(missing_ok=True)
        self.begin = time.monotonic()
        self.end = self.begin + args.seconds if args.seconds else None
        self._runs = tempfile.TemporaryDirectory(prefix="gpu-check-")
        self.folder = pathlib.Path(self._runs.name)
        # Products are timed once for all commands.
        os.environ["XDG_CACHE_HOME"] = str(self.folder / "cache")

    def on_a_card(self):
        return self.args.device == "cuda"

    def left(self):
        """Seconds that a command may take; OutOfTime where there are none to speak of."""
        if self.end is None:
            return self.args.timeout
        if self.is_over():
            raise OutOfTime("no time was left")
        return min(self.args.timeout, self.end - time.monotonic())

    def is_over(self):
        return self.end is not None and time.monotonic() > self.end - LEAST_SECONDS

    def add(self, row):
        """A row of the part that is under way."""
        with self.lock:
            self.result["rows"].append(row)
            self.write()
        return row

    def fail(self, what):
        with self.lock:
            self.result["failed"].append(what)
            self.write()

    def keep(self, what, said):
        """Writes into log.txt what something that failed said, all of it."""
        with self.lock, (self.out / "log.txt").open("a") as log:
            log.write(f"== {what}\n{said.strip()}\n\n")

    def tell(self, command):
        """Lists a command with its part, before it is run."""
        root = str(processes.ROOT) + "/"
        with self.lock:
            self.commands.append(" ".join(str(c).replace(root, "") for c in command))
            self.write()

    def run_to_its_end(self, command, seconds=None, env=None):
        """How a command ended and what it printed, whatever its exit code; TimeoutExpired."""
        self.tell(command)
        limit = self.left()
        return processes.ended([str(c) for c in command], env,
                               min(seconds, limit) if seconds else limit)

    def run(self, command, seconds=None):
        """stdout of a command; RuntimeError with its last line where it fails."""
        try:
            done = self.run_to_its_end(command, seconds)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"not done in {error.timeout:.0f} s") from error
        if done.returncode != 0:
            self.keep(" ".join(map(str, command)), done.stdout + done.stderr)
            said = [line for line in (done.stdout + done.stderr).strip().splitlines()
                    if line and not line.startswith("Run with --help")]
            raise RuntimeError(": ".join([processes.code(done.returncode), *said[-1:]]))
        return done.stdout

    def program(self, name):
        path = self.args.bin / name
        if not path.exists():
            raise Skipped(f"there is no {path}")
        return path

    def part(self, name, work, what):
        """Does a part, which is what it says; whatever happens in it, the others follow."""
        print(f"== {name}", flush=True)
        begin, self.commands = time.monotonic(), []
        result = self.result = {"ok": None, "ended": False, "what": what, "note": "", "rows": [],
                                "failed": [], "seconds": 0, "commands": self.commands}
        self.results["parts"][name] = result
        self.write()
        try:
            self.left()
            result |= {"ok": True} | (work() or {})
        except Skipped as reason:
            result |= {"ok": None, "note": str(reason)}
        except Exception as error:  # noqa: BLE001: it is reported, and the next part is tried
            if self.is_over():
                result |= {"ok": None, "note": "time was up"}
            else:
                result |= {"ok": False, "note": one_line(f"{type(error).__name__}: {error}")}
        if result["failed"]:
            result["ok"] = False
        result |= {"ended": True, "seconds": round(time.monotonic() - begin, 1)}
        print(f"   {state(result)} in {result['seconds']} s  {why(result)}", flush=True)
        self.write()

    def tried(self, name, work):
        """Work that may fail without what follows it in its part."""
        self.left()
        try:
            work()
        except Skipped:
            raise
        except Exception as error:  # noqa: BLE001
            if self.is_over():
                raise OutOfTime("time was up") from error
            self.fail(f"{name}: {one_line(error)}")

    def write(self):
        with self.lock:
            self.results["seconds"] = round(time.monotonic() - self.begin, 1)
            for name, text in [("results.md", markdown(self.results)),
                               ("results.json", json.dumps(self.results, indent=1) + "\n")]:
                write_whole(self.out / name, text.encode())
