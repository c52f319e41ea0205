// OpDef::rows: an operator on one part of the rows after the other, beside all at once.
#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "core/error.h"
#include "memory/passes/split_nodes.h"
#include "tests/ops/generic/checks.h"

namespace pal::test {
namespace {

constexpr int64_t kPartsTried[] = {2, 3, 5, 19};

Rows rows_of(const Case& c) { return c.op->rows ? c.op->rows(c.example.attrs) : Rows{}; }

bool reads_rows(const Case& c, size_t operand) {
  const Rows rows = rows_of(c);
  return c.in[operand] != kNone && rows.reads(operand) && int(operand) != rows.sum;
}

bool on_bytes(const TensorSpec& spec, int64_t rows) {
  return spec.numel() / rows * bits(spec.dtype) % 8 == 0;
}

// How many rows the case can be cut by; 0: by none.
int64_t row_count(const Case& c) {
  if (rows_of(c).operands == 0) return 0;
  int64_t count = 0;
  for (size_t k = 0; k < c.in.size(); ++k) {
    if (!reads_rows(c, k)) continue;
    const TensorSpec& spec = c.example.operands[k].spec;
    if (count == 0) count = spec.shape.rank() > 1 ? spec.shape[0] : 0;
    if (count == 0 || spec.shape[0] != count || !on_bytes(spec, count)) return 0;
  }
  for (const ValueId v : c.out) {
    if (v == kNone || rows_of(c).sum >= 0) continue;
    if (!on_bytes(c.program.value(v).spec, count)) return 0;
  }
  return count;
}

// The case on rows [begin, end) of `count`; nothing where that does not fit its attributes. `sum`:
// of the rows before, where it adds them up.
std::optional<Case> part_of(const Case& c, int64_t begin, int64_t end, int64_t count,
                            const Bytes& sum) {
  const Rows rows = rows_of(c);
  Example example = c.example;
  std::vector<Bytes> values = c.values;
  for (size_t k = 0; k < c.in.size(); ++k) {
    if (!reads_rows(c, k)) continue;
    const int64_t row = example.operands[k].spec.bytes() / count;
    values[k] = {c.values[k].begin() + begin * row, c.values[k].begin() + end * row};
    example.operands[k].spec = with_rows(example.operands[k].spec, end - begin);
  }
  if (rows.sum >= 0 && begin > 0) {
    ExampleOperand& onto = example.operands.at(size_t(rows.sum));
    onto.absent = false, onto.spec = c.program.value(c.out[0]).spec;
    values[size_t(rows.sum)] = sum;
  }
  std::optional<Case> part;
  try {
    part = make_case(*c.op, example, c.seed, c.accelerator);
  } catch (const ProgramError&) {
    return {};
  }
  part->values = std::move(values), part->cudnn = c.cudnn;
  for (size_t i = 0; i < c.out.size(); ++i) {
    if (c.out[i] == kNone || rows.sum >= 0) continue;
    const TensorSpec& spec = c.program.value(c.out[i]).spec;
    if (part->program.value(part->out[i]).spec != with_rows(spec, end - begin)) return {};
  }
  return part;
}

// The outputs by so many parts; nothing where the case has none.
std::optional<std::vector<Bytes>> by_parts(const Case& c, int64_t parts, Problems& problems) {
  const int64_t count = row_count(c);
  if (count < 2 || count % parts != 0) return {};
  std::vector<Bytes> out(c.out.size());
  for (int64_t begin = 0; begin < count; begin += count / parts) {
    const auto part = part_of(c, begin, begin + count / parts, count, out[0]);
    if (!part) return {};
    const auto got = evaluate(*part, {.threads = 2}, problems);
    for (size_t i = 0; i < got.size(); ++i) {
      if (rows_of(c).sum >= 0) out[i].clear();
      out[i].insert(out[i].end(), got[i].begin(), got[i].end());
    }
  }
  return out;
}

// Whether two results are the same but for rounding, beside the largest of them.
bool are_close(const TensorSpec& spec, const Bytes& a, const Bytes& b) {
  const std::vector<float> x = decode(spec, a), y = decode(spec, b);
  double most = 0, apart = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return false;
    most = std::max(most, double(std::abs(x[i])));
    apart = std::max(apart, double(std::abs(x[i] - y[i])));
  }
  return apart <= most * (spec.dtype == DType::f32 ? 1e-5 : 0x1p-6);
}

// A library may take another kernel for another shape.
bool is_librarys(const Case& c) {
  const std::string name = c.op->name;
  return c.accelerator || name.starts_with("conv") || name == "matmul";
}

}  // namespace

Problems check_rows(const Case& c) {
  Problems problems;
  const bool exact = rows_of(c).sum < 0 && !is_librarys(c);
  for (const int64_t parts : kPartsTried) {
    const auto got = by_parts(c, parts, problems);
    if (!got) continue;
    const auto whole = evaluate(c, {.threads = 2}, problems);
    for (size_t i = 0; i < whole.size(); ++i) {
      if (c.out[i] == kNone) continue;
      const TensorSpec& spec = c.program.value(c.out[i]).spec;
      const std::string difference = first_difference(spec, whole[i], (*got)[i]);
      if (difference.empty() || (!exact && are_close(spec, whole[i], (*got)[i]))) continue;
      problems.push_back("output " + std::to_string(i) + " differs by rows, in " +
                         std::to_string(parts) + " parts: " + difference);
    }
  }
  return problems;
}

Problems check_rows_exercised(const std::vector<Case>& cases) {
  Problems problems;
  const auto fact = [](const Case& c) {
    return std::make_tuple(rows_of(c).operands, rows_of(c).sum);
  };
  const auto is_tried = [&](const Case& c) {
    return std::any_of(std::begin(kPartsTried), std::end(kPartsTried),
                       [&](int64_t parts) { return by_parts(c, parts, problems).has_value(); });
  };
  for (const Case& c : cases) {
    if (rows_of(c).operands == 0) continue;
    const bool any = std::any_of(cases.begin(), cases.end(), [&](const Case& other) {
      return fact(other) == fact(c) && is_tried(other);
    });
    if (!any)
      return {"no example is run by rows, with attributes such as " + c.example.attrs.print()};
  }
  return problems;
}

}  // namespace pal::test
