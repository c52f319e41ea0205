"""What the card reaches: square products in f32, TF32 and bf16, and copies within its memory.

Prints one JSON object: TFLOP/s of each, and GB/s read and written.
"""
import argparse
import json
import statistics
import time

import torch

import timing


def seconds_of(work, device, repeats=10):
    def finish():
        if device != "cpu":
            torch.cuda.synchronize()

    work(), finish()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work(), finish()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the script")
    parser.add_argument("--size", type=int, default=8192, help="rows and columns of a product")
    parser.add_argument("--bytes", type=int, default=1 << 30, help="of a copy")
    args = parser.parse_args()
    row = {}
    for name, dtype, tf32 in [("f32", torch.float32, False), ("tf32", torch.float32, True),
                              ("bf16", torch.bfloat16, False)]:
        timing.use_tf32(tf32)
        a, b = (torch.randn(args.size, args.size, dtype=dtype, device=args.device)
                for _ in range(2))
        row[name + "_tflops"] = 2e-12 * args.size ** 3 / seconds_of(lambda: a @ b, args.device)
    source = torch.zeros(args.bytes // 4, device=args.device)
    target = torch.empty_like(source)
    row["copy_gb_s"] = 2e-9 * args.bytes / seconds_of(lambda: target.copy_(source), args.device)
    print(json.dumps(row))


if __name__ == "__main__":
    main()
