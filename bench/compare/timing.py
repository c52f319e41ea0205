"""What the PyTorch side of every comparison shares: its options, and timing training steps."""
import argparse
import json
import statistics
import time

import torch


def options(doc, **sizes):
    """A parser of the common options and of one integer option for each size."""
    parser = argparse.ArgumentParser(description=doc)
    for name, value in {"threads": 2, "warmup": 2, "steps": 5, **sizes}.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="f32",
                        help="tf32: a GPU's products; bf16: autocast")
    parser.add_argument("--compile", nargs="?", const="default",
                        choices=["default", "reduce-overhead"],
                        help="torch.compile the model; reduce-overhead: CUDA graphs too")
    return parser


def use_tf32(on):
    """Whether a GPU's f32 products and convolutions may be TF32's."""
    # These two set what PyTorch 2.9 and newer keep twice, for allow_tf32 and for fp32_precision, to the
    # same. With fp32_precision alone torch.compile, which reads allow_tf32, fails there.
    torch.set_float32_matmul_precision("high" if on else "highest")
    torch.backends.cudnn.allow_tf32 = on


def start(args):
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    use_tf32(args.precision == "tf32")
    if torch.cuda.is_initialized():  # by a case before this one
        torch.cuda.reset_peak_memory_stats()


def report(args, model, step, samples, tokens):
    """Times step(model), which returns the loss as a tensor, and prints one JSON object."""
    if args.compile:
        model = torch.compile(model, mode=None if args.compile == "default" else args.compile)
    seconds, losses = [], []
    for number in range(args.warmup + args.steps):
        begin = time.perf_counter()
        if args.compile == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16"):
            losses.append(step(model).item())  # waits for the device
        if number >= args.warmup:
            seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds)
    how = {None: "", "default": " compiled", "reduce-overhead": " compiled, graphs"}[args.compile]
    result = {"program": f"PyTorch {torch.__version__}{how}",
              "threads": args.threads, "step_ms": 1e3 * median, "samples_per_s": samples / median,
              "tokens_per_s": tokens / median, "first_loss": losses[0], "last_loss": losses[-1]}
    if args.device == "cuda":
        result["device"] = torch.cuda.get_device_name()
        result["peak_bytes"] = torch.cuda.max_memory_allocated()
        result["reserved_bytes"] = torch.cuda.max_memory_reserved()
    print(json.dumps(result))
