"""PyTorch's side: a process that imports it once, and runs a case after the other."""
import json
import queue
import subprocess
import threading

from gpu_check import processes


class Cases:
    """bench/compare/pytorch_cases.py. It is started again behind a case that ended it."""

    def __init__(self, python, errors):
        self.command = [python, "bench/compare/pytorch_cases.py"]
        self.errors, self.process = errors, None

    def start(self):
        if self.process:
            return
        with self.errors.open("wb") as errors:
            self.process = processes.start(self.command, stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=errors, text=True)
        self.answers = queue.Queue()
        threading.Thread(target=self._read, args=(self.process, self.answers), daemon=True).start()

    @staticmethod
    def _read(process, answers):
        for line in process.stdout:
            answers.put(line)
        answers.put(None)

    def stop(self):
        if self.process:
            processes.stop(self.process)
        self.process = None

    def ask(self, case, seconds):
        """What a script with its options prints, an object; RuntimeError with what it says instead."""
        self.start()
        try:
            self.process.stdin.write(json.dumps(case) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended, which is also what its answer says
        try:
            line = self.answers.get(timeout=seconds)
        except queue.Empty:
            self.stop()
            raise RuntimeError(f"PyTorch was not done in {seconds:.0f} s") from None
        if line is None:
            code = self.process.wait()
            self.stop()
            said = self.errors.read_text(errors="replace").strip().splitlines()[-1:]
            raise RuntimeError(f"PyTorch ended with exit code {code}: {''.join(said)}")
        answer = json.loads(line)
        if answer.get("ends"):
            self.stop()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]


def compile_ahead(python, cases, folder):
    """A process that runs cases of which nobody reads the times: what PyTorch compiles for them is kept
    in its own folder, so that it need not be compiled when they are timed. It gives way to others."""
    file = folder / "ahead.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases))
    with file.open() as given:
        return processes.start(["nice", "-n", "10", python, "bench/compare/pytorch_cases.py"],
                               stdin=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
