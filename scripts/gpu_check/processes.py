"""Commands that end in time, with all that they started; and when the script ends, all of them."""
import os
import pathlib
import signal
import subprocess
import threading
from concurrent import futures

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_running, _lock, _over = set(), threading.Lock(), False


def start(command, **options):
    """A process with a group of its own."""
    with _lock:
        if _over:
            raise RuntimeError("the script is ending")
        process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **options)
        _running.add(process)
        return process


def stop(process):
    """Ends it and what it started, and waits for it."""
    send(process, signal.SIGKILL)
    process.wait()
    with _lock:
        _running.discard(process)


def send(process, what):
    try:
        os.killpg(process.pid, what)
    except ProcessLookupError:
        pass


def stop_all():
    """Nothing runs any more, and nothing starts again."""
    global _over
    with _lock:
        _over = True
        for process in _running:
            send(process, signal.SIGKILL)


def ended(command, env, seconds):
    """What a command printed and how it ended; when its time is over, it and all it started are."""
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    errors="replace", env=env)
    late = False
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        late = True
        send(process, signal.SIGKILL)
        out, err = process.communicate()
    finally:
        stop(process)
    if late:
        raise subprocess.TimeoutExpired(command, seconds, out, err)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def code(status):
    """How a process ended, in words."""
    return signal.Signals(-status).name if status < 0 else f"exit code {status}"


def together(works):
    """Does all at the same time; then the first error, if there was one."""
    with futures.ThreadPoolExecutor(len(works)) as pool:
        try:
            tasks = [pool.submit(work) for work in works]
            futures.wait(tasks)
        except BaseException:  # a signal: the threads' processes end, and so do they
            stop_all()
            raise
    return [task.result() for task in tasks]
