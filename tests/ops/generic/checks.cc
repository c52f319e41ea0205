// The checks that run kernels: what they write, read, share and depend on.
#include "tests/ops/generic/checks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "core/builder.h"
#include "core/error.h"
#include "core/scalars.h"
#include "core/verify.h"
#include "memory/passes/parts.h"
#include "ops/kernels/tiles.h"

namespace pal::test {
namespace {

Bytes draw_operand(const ExampleOperand& operand, std::mt19937_64& rng) {
  const TensorSpec& spec = operand.spec;
  if (spec == scalars_spec() && operand.lo < 0) {
    const StepScalars scalars{.learning_rate = 0.05f,
                              .loss_scale = 2,
                              .step = 3,
                              .micro_batch = 1,
                              .seed_low = uint32_t(rng()),
                              .seed_high = 7,
                              .tokens = 5};
    auto* p = reinterpret_cast<const std::byte*>(&scalars);
    return {p, p + sizeof scalars};
  }
  std::vector<float> elements(
      size_t(spec.layout ? spec.bytes() * 8 / bits(spec.dtype) : spec.numel()));
  const bool whole = spec.dtype == DType::i32 || spec.dtype == DType::u8 || spec.dtype == DType::u4;
  std::uniform_real_distribution<double> real(operand.lo, operand.hi);
  std::uniform_int_distribution<int> integer(int(std::ceil(operand.lo)), int(operand.hi));
  for (float& x : elements) x = whole ? float(integer(rng)) : float(real(rng));
  return encode(spec, elements);
}

// The same case with operand k of another type and other bytes.
Case with_operand(const Case& c, size_t k, TensorSpec spec, Bytes bytes) {
  Example example = c.example;
  example.operands[k].spec = std::move(spec);
  Case out = make_case(*c.op, example, c.seed, c.accelerator);
  out.cudnn = c.cudnn;
  out.values = c.values;
  out.values[k] = std::move(bytes);
  return out;
}

void compare(const Case& c, const std::vector<Bytes>& expected, const std::vector<Bytes>& got,
             const std::string& when, Problems& problems) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].empty() || got[i].empty()) continue;
    std::string difference = first_difference(c.program.value(c.out[i]).spec, expected[i], got[i]);
    if (!difference.empty()) {
      problems.push_back("output " + std::to_string(i) + " has other bits " + when + ": " +
                         difference);
    }
  }
}

// Whether the pair is there, and of equal size: where the number of operands or outputs varies, the
// shares are those of the longest form.
bool can_share(const Case& c, Share s) {
  if (s.output >= int(c.out.size()) || s.operand >= int(c.in.size())) return false;
  const ValueId y = c.out[size_t(s.output)], x = c.in[size_t(s.operand)];
  return y != kNone && x != kNone &&
         c.program.value(y).spec.bytes() == c.program.value(x).spec.bytes();
}

std::string pair_name(int output, int operand) {
  return "output " + std::to_string(output) + " on operand " + std::to_string(operand);
}

}  // namespace

Case make_case(const OpDef& op, const Example& example, uint64_t seed,
               std::shared_ptr<Accelerator> accelerator) {
  Case c{.op = &op, .example = example, .seed = seed, .accelerator = std::move(accelerator)};
  Builder builder;
  std::mt19937_64 rng(seed);
  std::vector<char> written(example.operands.size(), 0);
  if (op.writes_state) {
    for (Share s : shares_of(op, example.operands.size())) {
      if (size_t(s.operand) < written.size()) written[size_t(s.operand)] = 1;
    }
  }
  std::vector<Val> in;
  for (size_t k = 0; k < example.operands.size(); ++k) {
    const ExampleOperand& operand = example.operands[k];
    c.values.push_back(operand.absent ? Bytes{} : draw_operand(operand, rng));
    const std::string name = "x" + std::to_string(k);
    in.push_back(operand.absent ? Val{}
                 : written[k]   ? builder.state(name, operand.spec, Role::optimizer_state)
                                : builder.input(name, operand.spec));
  }
  builder.emit(op, in, example.attrs);
  c.program = builder.take();
  Node& node = c.program.nodes[0];
  for (size_t i = 0; i < example.unread.size() && i < node.out.size(); ++i) {
    if (example.unread[i]) node.out[i] = kNone;
  }
  c.in = node.in, c.out = node.out;
  return c;
}

Device device_of(const Case& c, int threads) {
  if (!c.accelerator) return cpu_device(threads);
  return {.kind = DeviceKind::cuda, .accelerator = c.accelerator, .cudnn = c.cudnn};
}

namespace {

std::vector<Bytes> evaluate(const Case& c, const std::vector<ValueId>& outputs, EvalOptions options,
                            Problems& problems) {
  KernelCache fresh(device_of(c, options.threads));
  if (!options.cache) options.cache = &fresh;
  Evaluator eval(c.program, std::move(options));
  for (size_t k = 0; k < c.in.size(); ++k) {
    if (c.in[k] != kNone) eval.set_bytes(c.in[k], c.values[k]);
  }
  for (auto& problem : eval.check_run()) problems.push_back(problem);
  std::vector<Bytes> out;
  for (ValueId v : outputs) out.push_back(v == kNone ? Bytes{} : eval.bytes(v));
  return out;
}

}  // namespace

std::vector<Bytes> evaluate(const Case& c, EvalOptions options, Problems& problems) {
  return evaluate(c, c.program.nodes[0].out, std::move(options), problems);
}

Problems check_parts(const Case& c, std::span<const Rewrite* const> rewrites) {
  Problems problems;
  const bool splits = std::any_of(rewrites.begin(), rewrites.end(), [&](const Rewrite* r) {
    return r->when == Rewrite::When::split && r->op == c.op;
  });
  if (!splits) return problems;
  Case parts = c;
  parts.program = split_parts(c.program, rewrites);
  verify(parts.program);
  if (parts.program.nodes.size() < 2) problems.push_back("its parts are one node");
  compare(c, evaluate(c, {.threads = 2}, problems),
          evaluate(parts, c.out, {.threads = 2}, problems), "in parts", problems);
  return problems;
}

Problems check_writes(const Case& c) {
  Problems problems;
  KernelCache cache(device_of(c, 1));
  auto base = evaluate(c, {.cache = &cache, .poison = 0xFF, .updates_in_place = false}, problems);
  for (unsigned char poison : {0x00, 0x5A}) {
    auto again =
        evaluate(c, {.cache = &cache, .poison = poison, .updates_in_place = false}, problems);
    compare(c, base, again, "when other bytes were there before", problems);
  }
  return problems;
}

Problems check_shares(const Case& c) {
  Problems problems;
  KernelCache cache(device_of(c, 2));
  const EvalOptions plain{.threads = 2, .cache = &cache, .updates_in_place = false};
  auto base = evaluate(c, plain, problems);
  EvalOptions together = plain;
  std::vector<char> taken_out(c.out.size(), 0), taken_in(c.in.size(), 0);
  for (Share s : shares_of(*c.op, c.in.size())) {
    if (!can_share(c, s)) continue;
    const ValueId y = c.out[size_t(s.output)], x = c.in[size_t(s.operand)];
    EvalOptions shared = plain;
    shared.aliases = {{y, x}};
    compare(c, base, evaluate(c, shared, problems), "with " + pair_name(s.output, s.operand),
            problems);
    if (taken_out[size_t(s.output)]++ || taken_in[size_t(s.operand)]++) continue;
    together.aliases.push_back({y, x});
  }
  if (together.aliases.size() > 1) {
    compare(c, base, evaluate(c, together, problems), "with several shares at once", problems);
  }
  return problems;
}

Problems check_shares_exercised(const std::vector<Case>& cases) {
  Problems problems;
  if (cases.empty()) return problems;
  for (Share s : cases[0].op->shares) {
    if (std::any_of(cases.begin(), cases.end(), [&](const Case& c) { return can_share(c, s); })) {
      continue;
    }
    problems.push_back("no example has " + pair_name(s.output, s.operand) + " of equal bytes");
  }
  return problems;
}

Problems check_windows(const Case& c) {
  Problems problems;
  if (!c.op->windows) return problems;
  const Specs in = specs_of(c.program, c.in), out = specs_of(c.program, c.out);
  KernelCache cache(device_of(c, 2));
  const EvalOptions plain{.threads = 2, .cache = &cache};
  auto base = evaluate(c, plain, problems);
  EvalOptions together = plain;
  std::vector<ValueId> placed;
  for (Window w : c.op->windows(in, out, c.example.attrs)) {
    const ValueId y = c.out[size_t(w.output)], x = c.in[size_t(w.operand)];
    if (y == kNone || x == kNone) continue;
    const Alias alias = w.of == Window::Of::operand ? Alias{y, x, w.offset} : Alias{x, y, w.offset};
    EvalOptions one = plain;
    one.aliases = {alias};
    try {
      compare(c, base, evaluate(c, one, problems),
              "with a window of " + pair_name(w.output, w.operand), problems);
    } catch (const ProgramError& error) {
      problems.push_back("window of " + pair_name(w.output, w.operand) + ": " + error.what());
      continue;
    }
    if (std::count(placed.begin(), placed.end(), alias.value)) continue;
    placed.push_back(alias.value);
    together.aliases.push_back(alias);
  }
  if (together.aliases.size() > 1) {
    compare(c, base, evaluate(c, together, problems), "with all windows in place", problems);
  }
  return problems;
}

Problems check_predicates(const Case& c) {
  Problems problems;
  auto base = evaluate(c, {}, problems);
  for (size_t k = 0; k < c.in.size(); ++k) {
    const Reads reads = reads_of(*c.op, int(k), c.example.attrs);
    if (c.in[k] == kNone || reads.kind != Reads::Kind::predicate) continue;
    const TensorSpec& spec = c.example.operands[k].spec;
    if (spec.dtype == DType::bit) continue;
    std::vector<float> holds = decode(spec, c.values[k]);
    for (float& x : holds) x = reads.lo < x && x < reads.hi ? 1 : 0;
    const TensorSpec bit{spec.shape, DType::bit};
    const std::string when = "with operand " + std::to_string(k) + " as bits";
    try {
      Case packed = with_operand(c, k, bit, encode(bit, holds));
      for (size_t i = 0; i < c.out.size(); ++i) {
        if (c.out[i] == kNone) continue;
        if (!(packed.program.value(packed.out[i]).spec == c.program.value(c.out[i]).spec)) {
          problems.push_back("output " + std::to_string(i) + " has another spec " + when);
        }
      }
      if (problems.empty()) {
        for (int threads : {1, 3}) {
          compare(c, base, evaluate(packed, {.threads = threads}, problems), when, problems);
        }
      }
    } catch (const ProgramError& error) {
      problems.push_back("refused " + when + ": " + error.what());
    }
  }
  return problems;
}

Problems check_shape_only(const Case& c) {
  Problems problems;
  auto base = evaluate(c, {}, problems);
  for (size_t k = 0; k < c.in.size(); ++k) {
    const Reads reads = reads_of(*c.op, int(k), c.example.attrs);
    if (c.in[k] == kNone || reads.kind != Reads::Kind::shape) continue;
    Case poisoned = c;
    for (int fill : {0xFF, 0x7A}) {
      poisoned.values[k].assign(c.values[k].size(), std::byte(fill));
      compare(c, base, evaluate(poisoned, {}, problems),
              "when operand " + std::to_string(k) + ", read by shape, holds other bytes", problems);
    }
  }
  return problems;
}

Problems check_zeros(const std::vector<Case>& cases) {
  Problems problems;
  int64_t made = 0, zero = 0;
  for (const Case& c : cases) {
    const Zeros zeros = c.op->zeros ? c.op->zeros(c.example.attrs) : Zeros::few;
    if (zeros == Zeros::few) continue;
    Case tried = c;
    for (size_t k = 0; k < (zeros == Zeros::gathers ? c.values.size() : 1); ++k) {
      if (zeros != Zeros::makes)
        std::fill(tried.values[k].begin(), tried.values[k].end(), std::byte{});
    }
    const std::vector<Bytes> out = evaluate(tried, {}, problems);
    for (size_t i = 0; i < out.size(); ++i) {
      if (c.out[i] == kNone || !pal::is_float(c.program.value(c.out[i]).spec.dtype)) continue;
      const int64_t elements = c.program.value(c.out[i]).spec.numel();
      const size_t width = out[i].size() / size_t(elements);
      int64_t zeros_here = 0;
      for (size_t at = 0; at < out[i].size(); at += width) {
        zeros_here += std::all_of(&out[i][at], &out[i][at] + width,
                                  [](std::byte b) { return b == std::byte{}; });
      }
      if (zeros == Zeros::makes) made += elements, zero += zeros_here;
      if (zeros == Zeros::makes || zeros_here == elements) continue;
      problems.push_back("it keeps zeros, and output " + std::to_string(i) +
                         " has others where its operands are all zero");
    }
  }
  if (16 * zero < made) problems.push_back("it makes zeros, and hardly one of its results is");
  return problems;
}

Problems check_threads(const Case& c) {
  Problems problems;
  auto base = evaluate(c, {.threads = 1}, problems);
  for (int threads : {2, 3}) {
    compare(c, base, evaluate(c, {.threads = threads}, problems),
            "with " + std::to_string(threads) + " threads", problems);
  }
  return problems;
}

Problems check_alignment(const Case& c, bool on_rows) {
  Problems problems;
  KernelCache cache(device_of(c, 2));
  auto base = evaluate(c, {.threads = 2, .cache = &cache}, problems);
  for (int offset = 4; offset <= 60; offset += 4) {
    for (int stride : {0, 20}) {  // all alike, and each operand elsewhere
      if (stride && offset % 16 != 4) continue;
      compare(c, base,
              evaluate(c,
                       {.threads = 2,
                        .cache = &cache,
                        .offset = offset,
                        .stride = stride,
                        .on_rows = on_rows},
                       problems),
              "with buffers " + std::to_string(offset) + " bytes past a boundary", problems);
    }
  }
  // Windows of 16-bit and smaller elements begin on odd addresses too.
  for (int offset : {1, 2, 7}) {
    compare(
        c, base,
        evaluate(c,
                 {.threads = 2, .cache = &cache, .offset = offset, .stride = 2, .on_rows = on_rows},
                 problems),
        "with small elements on odd addresses", problems);
  }
  return problems;
}

Problems check_purity(const std::vector<Case>& cases) {
  Problems problems;
  std::map<bool, std::unique_ptr<KernelCache>> caches;  // with cuDNN, and without
  const auto evaluate_kept = [&](const Case& c) {
    std::unique_ptr<KernelCache>& cache = caches[c.cudnn];
    if (!cache) cache = std::make_unique<KernelCache>(device_of(c, 2));
    return evaluate(c, {.threads = 2, .cache = cache.get()}, problems);
  };
  std::vector<std::vector<Bytes>> base;
  for (size_t k = 0; k < cases.size(); ++k) {
    base.push_back(evaluate_kept(cases[k]));
    compare(cases[k], base[k], evaluate_kept(cases[k]),
            "when example " + std::to_string(k) + " runs twice", problems);
  }
  for (size_t k = 0; k < cases.size(); ++k) {
    const Case& c = cases[k];
    const std::string example = "when example " + std::to_string(k) + " runs ";
    compare(c, base[k], evaluate_kept(c), example + "again behind all", problems);
    compare(c, base[k], evaluate(c, {.threads = 2}, problems), example + "prepared afresh",
            problems);
  }
  return problems;
}

Problems check_unread(const Case& c) {
  Problems problems;
  const size_t read = c.out.size() - size_t(std::count(c.out.begin(), c.out.end(), kNone));
  if (read < 2 || c.op->writes_state) return problems;
  auto base = evaluate(c, {}, problems);
  for (size_t i = 0; i < c.out.size(); ++i) {
    if (c.out[i] == kNone) continue;
    Case without = c, alone = c;
    without.program.nodes[0].out[i] = kNone;
    compare(c, base, evaluate(without, {}, problems),
            "when output " + std::to_string(i) + " is unread", problems);
    for (size_t j = 0; j < c.out.size(); ++j) {
      if (j != i) alone.program.nodes[0].out[j] = kNone;
    }
    compare(c, base, evaluate(alone, {}, problems),
            "when output " + std::to_string(i) + " alone is read", problems);
  }
  return problems;
}

}  // namespace pal::test
