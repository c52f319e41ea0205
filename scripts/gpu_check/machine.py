"""What the machine is, and where it has the libraries."""
import os
import pathlib
import subprocess

from gpu_check import processes


def find_libraries(visit):
    """Lets our programs find cuBLASLt and cuDNN in Python's wheels: a toolkit may lack one."""
    toolkit = pathlib.Path("/usr/local/cuda/lib64")
    if not visit.on_a_card() or all(
            list(toolkit.glob(name)) for name in ["libcublasLt.so.*", "libcudnn.so.9*"]):
        return
    code = ("import pathlib, sys; print(':'.join(str(lib) for p in sys.path"
            " for lib in pathlib.Path(p).glob('nvidia/*/lib')))")
    found = subprocess.run([visit.args.python, "-c", code], capture_output=True, text=True)
    given = os.environ.get("PAL_CUDA_LIBRARY_PATH")
    os.environ["PAL_CUDA_LIBRARY_PATH"] = ":".join(filter(None, [given, found.stdout.strip()]))


def profile(visit):
    """The device that predictions are for, by the card's name; None without one."""
    if not visit.on_a_card():
        return None
    try:
        asked = processes.ended(["nvidia-smi", "--format=csv,noheader", "--query-gpu=name"], None, 20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next((card for card in ("h200", "h100") if card in asked.stdout.lower()), None)


def machine(visit):
    """What the machine is."""
    found = {}
    version = processes.ROOT / "VERSION"
    if version.exists():
        found["version"] = version.read_text().strip()
    queries = {
        "card": ["nvidia-smi", "--format=csv,noheader", "--query-gpu=name,driver_version,"
                 "memory.total,clocks.max.sm,clocks.max.mem,power.limit"],
        "nvcc": ["nvcc", "--version"],
        "torch": [visit.args.python, "-c",
                  "from importlib import metadata; print(metadata.version('torch'))"],
    }
    for name, command in queries.items():
        try:
            found[name] = visit.run(command).strip().splitlines()[-1]
            if name == "card" and visit.on_a_card():
                visit.results["card"] = found[name].split(",")[0]
        except (OSError, RuntimeError) as error:
            found[name] = f"unknown ({str(error).splitlines()[0]})"
    found |= {"processors": os.cpu_count(), "predictions are for": profile(visit) or "no device"}
    for what, is_ in found.items():
        visit.add({"what": what, "is": is_})
