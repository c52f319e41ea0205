"""The parts that are timed: ours, beside PyTorch's and without what ours has."""
import dataclasses
import functools
import json
import os
import pathlib

from gpu_check import machine, processes, pytorch
from gpu_check.report import write_whole
from gpu_check.visit import Skipped

OURS = "Palimpsest"
EAGER, COMPILED, GRAPHS = "PyTorch", "PyTorch compiled", "PyTorch compiled, graphs"
PYTORCH = {EAGER: [], COMPILED: ["--compile"], GRAPHS: ["--compile", "reduce-overhead"]}
CONVOLUTIONAL = ("resnet", "deepspeech2", "vgg")  # models that have convolutions
RECURRENT = ("deepspeech2", "nmt")  # whose layers may be whole
WITHOUT = {"no graphs": "device.graphs=false", "no cuDNN": "device.cudnn=false",
           "no branches": "device.branches=false",
           "no timed products": "device.timed_products=false"}
TRACED_STEPS = 5
MOST_OPERATORS = 15  # of a case, the slowest ones


@dataclasses.dataclass
class Case:
    """What is timed."""
    name: str
    ours: list  # options
    large: bool
    script: list = None  # PyTorch's, with its options; without one ours has no counterpart
    seconds: int = None  # that ours may take
    operators: bool = False  # is also looked at operator by operator


def cases(file, large):
    return [Case(f"{model} ({case.pop('what')})", large=large, **case)
            for model, case in json.loads(pathlib.Path(file).read_text()).items()]


def beside_prediction(ms, predicted):
    if not predicted:
        return {}
    return {"predicted ms": round(predicted, 3), "measured / predicted": round(ms / predicted, 2)}


class Timed:
    def __init__(self, visit):
        self.visit = visit
        args, compare = visit.args, processes.ROOT / "bench" / "compare"
        self.small_cases = cases(args.cases or compare / "cases.json", large=False)
        self.large_cases = cases(args.cases or compare / "large_cases.json", large=True)
        self.compared = [case for case in self.large_cases if case.script]
        self.pytorch = pytorch.Cases(args.python, visit.folder / "pytorch.err")
        self.details = {}

    @functools.cached_property
    def profile(self):
        return machine.profile(self.visit)

    def compile_ahead(self):
        """While nothing is timed PyTorch may compile what is timed later."""
        scripts = [self.script(case, "bf16", COMPILED, steps=1) for case in self.compared]
        return pytorch.compile_ahead(self.visit.args.python, scripts, self.visit.folder)

    def for_a_card(self):
        if not self.visit.on_a_card():
            raise Skipped("these sizes are for a card")

    # ---- one row ----

    def ours(self, case, precision, *more, sets=(), steps=None):
        """What our benchmark says of a case."""
        profile = ["--profile", self.profile] if self.profile else []
        try:
            return json.loads(self.visit.run(
                [self.visit.program("bench_step_bench"), "--json", "--steps",
                 steps or self.visit.args.steps, *profile, *more, *case.ours, "--set",
                 f"device.type={self.visit.args.device}", f"train.precision={precision}",
                 "memory.recompute=none", *sets], case.seconds))
        finally:
            self.keep_algorithms()

    def keep_algorithms(self):
        """Those that this machine's products were timed for: another visit may begin with them."""
        try:
            kept = (self.visit.folder / "cache" / "palimpsest" / "algorithms.txt").read_bytes()
        except OSError:
            return
        write_whole(self.visit.out / "algorithms.txt", kept)

    def script(self, case, precision, program, steps=None):
        """PyTorch's script for a case, with its options."""
        name, *sizes = case.script
        return [name, "--device", self.visit.args.device, "--steps", steps or self.visit.args.steps,
                "--threads", os.cpu_count(), "--precision", precision, *sizes, *PYTORCH[program]]

    def ask_pytorch(self, script):
        self.visit.tell([self.visit.args.python, "bench/compare/" + script[0], *script[1:]])
        return self.pytorch.ask(script, self.visit.left())

    def row_of_pytorch(self, case, precision, program):
        said = self.ask_pytorch(self.script(case, precision, program))
        self.visit.add({"model": case.name, "precision": precision, "program": said["program"],
                        "step ms": round(said["step_ms"], 2),
                        "samples/s": round(said["samples_per_s"], 1),
                        "peak MB": round(said.get("peak_bytes", 0) / 1e6, 1)})

    def row_of_ours(self, case, precision, label=OURS, sets=()):
        said = self.ours(case, precision, sets=sets)
        rate = said["product_gflop"] / said["step_ms"]  # TFLOP/s
        if case.large and not sets:
            code = self.visit.result.setdefault("code", {})
            code[f"{case.name}, {precision}"] = said["code"]
        self.visit.add({"model": case.name, "precision": precision, "program": label,
                        "step ms": round(said["step_ms"], 2),
                        "samples/s": round(said["samples_per_s"], 1),
                        "peak MB": round(said["planned_bytes"] / 1e6, 1),
                        "products TFLOP/s": round(rate, 2)}
                       | self.beside_whole(case, precision, said["step_ms"], sets)
                       | self.of_the_ceiling(rate, precision + "_tflops")
                       | beside_prediction(said["step_ms"], said.get("predicted_ms")))
        if (self.visit.on_a_card() and WITHOUT["no graphs"] not in sets
                and not said.get("recorded")):
            self.visit.fail(f"{case.name}, {precision}, {label}: the step was not recorded")

    def beside_whole(self, case, precision, ms, sets):
        """A step without something, beside the same step in `large`, which has it."""
        whole = [row["step ms"] for row in self.visit.results["parts"].get("large", {}).get("rows", [])
                 if (row["model"], row["precision"], row["program"]) == (case.name, precision, OURS)]
        if not whole or not whole[0] or not set(sets) & set(WITHOUT.values()):
            return {}
        return {"times large's": round(ms / whole[0], 2)}

    def benchmark(self, of, precisions, *programs):
        """Case by case the programs in turn, so that each row has the others beside it."""
        for precision in precisions:
            for case in of:
                for program in programs:
                    if program == OURS:
                        work = functools.partial(self.row_of_ours, case, precision)
                    elif case.script:
                        work = functools.partial(self.row_of_pytorch, case, precision, program)
                    else:
                        continue
                    self.visit.tried(f"{case.name}, {precision}, {program}", work)

    # ---- parts ----

    def large(self):
        """Sizes that fill a card, in bf16, beside compiled PyTorch."""
        self.for_a_card()
        self.benchmark(self.large_cases, ["bf16"], OURS, COMPILED)

    def large_pytorch(self):
        """The same sizes in PyTorch as it is."""
        self.for_a_card()
        self.benchmark(self.compared, ["bf16"], EAGER)

    def large_reduced(self):
        """The same sizes in compiled PyTorch with CUDA graphs, as ours has."""
        self.for_a_card()
        self.benchmark(self.compared, ["bf16"], GRAPHS)

    def large_f32(self):
        """The same sizes in TF32 and f32, beside PyTorch as it is."""
        self.for_a_card()
        self.benchmark(self.compared, ["tf32", "f32"], OURS, EAGER)

    def precisions(self):
        return ["bf16", "f32", "tf32"] if self.visit.on_a_card() else ["f32"]

    def small(self):
        """Smaller sizes beside PyTorch as it is."""
        self.benchmark(self.small_cases, self.precisions(), OURS, EAGER)

    def small_reduced(self):
        """Smaller sizes in compiled PyTorch with CUDA graphs."""
        self.benchmark(self.small_cases, self.precisions(), GRAPHS)

    def small_compiled(self):
        """Smaller sizes in compiled PyTorch."""
        self.benchmark(self.small_cases, self.precisions(), COMPILED)

    def without(self):
        """What graphs, cuDNN, branches, timed products and whole layers are worth."""
        card = self.visit.on_a_card()
        precision = "bf16" if card else "f32"
        todo = [(case, what, [change]) for case in (self.compared if card else self.small_cases)
                for what, change in WITHOUT.items()
                if what != "no cuDNN" or case.name.startswith(CONVOLUTIONAL)]
        todo += [(case, what, ["model.fused=true", f"model.whole_layers={on}"])
                 for case in self.small_cases if case.name.startswith(RECURRENT)
                 for what, on in [("whole layers", "true"), ("no whole layers", "false")]]
        for case, what, sets in todo:
            if card or what == "no graphs":  # the others are a card's alone
                self.visit.tried(f"{case.name}, {precision}, {what}", functools.partial(
                    self.row_of_ours, case, precision, f"{OURS}, {what}", sets))

    def ceiling(self, name):
        return (self.visit.results["parts"].get("ceilings", {}).get("rows") or [{}])[0].get(name)

    def of_the_ceiling(self, rate, name):
        top = self.ceiling(name)
        return {"of the ceiling": round(rate / top, 3) if top else None}

    def ceilings(self):
        """What the card reaches by itself."""
        size = [] if self.visit.on_a_card() else ["--size", "256", "--bytes", "1000000"]
        said = self.ask_pytorch(["pytorch_ceilings.py", "--device", self.visit.args.device, *size])
        self.visit.add({k: round(v, 1) for k, v in said.items()})
        for result in self.visit.results["parts"].values():  # rows that came before
            for row in result["rows"]:
                if "products TFLOP/s" in row:
                    row |= self.of_the_ceiling(row["products TFLOP/s"],
                                               row["precision"] + "_tflops")

    def detail(self, case, precision):
        """Operators and recorded peak of a case, by one process for the two parts that ask."""
        key = case.name, precision
        if key not in self.details:
            self.details[key] = self.ours(case, precision, "--operators", "--canary",
                                          steps=min(self.visit.args.steps, TRACED_STEPS))
        return self.details[key]

    def each_detail(self, row):
        closely = [(case, "bf16") for case in self.large_cases if case.operators]
        for case, precision in ((closely if self.visit.on_a_card() else [])
                                + [(case, "f32") for case in self.small_cases]):
            self.visit.tried(f"{case.name}, {precision}", lambda: row(  # noqa: B023: called at once
                case, precision, self.detail(case, precision)))

    def peaks(self):
        """No step touches a byte above its plan (a library may leave its workspace's end alone)."""
        def peak(case, precision, said):
            self.visit.add({"model": case.name, "precision": precision,
                            "planned bytes": said["planned_bytes"],
                            "recorded peak": said["recorded_peak_bytes"]})
            if said["recorded_peak_bytes"] > said["planned_bytes"]:
                self.visit.fail(f"{case.name}, {precision}: a step touches more than its plan has")

        self.each_detail(peak)

    def operators(self):
        """Where a step's time goes, by operator, and how near the ceilings and what was predicted."""
        def table(case, precision, said):
            for op in sorted(said["operators"], key=lambda op: -op["ms"])[:MOST_OPERATORS]:
                product = "matmul" in op["name"] or op["name"].startswith("conv")
                rate = (op["gflop"] if product else op["mb"]) / op["ms"] if op["ms"] else 0
                self.visit.add(
                    {"model": case.name, "precision": precision, "operator": op["name"],
                     "nodes": op["nodes"], "ms": round(op["ms"], 3), "rate": round(rate, 2),
                     "unit": "TFLOP/s" if product else "GB/s"}
                    | self.of_the_ceiling(rate, precision + "_tflops" if product else "copy_gb_s")
                    | beside_prediction(op["ms"], op.get("predicted_ms")))

        self.each_detail(table)
