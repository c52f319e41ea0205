// Gist's figures 4 and 7, which are about no network: what gradients read, and an example of
// sharing; and the bytes of its formats.
#include <algorithm>
#include <cmath>

#include "autograd/differentiate.h"
#include "core/builder.h"
#include "core/error.h"
#include "core/names.h"
#include "core/op.h"
#include "ops/convolution/avg_pool.h"
#include "ops/convolution/conv2d.h"
#include "ops/convolution/global_avg_pool.h"
#include "ops/convolution/max_pool.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/dropout.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/lrn.h"
#include "ops/products/matmul.h"
#include "ops/sums/reduce.h"
#include "ops/tensors/columns.h"
#include "train/papers/reproduce_gist.h"

namespace pal {
namespace {

using Table = ReproducedTable;

// An operand or a result as the figure names it, if a gradient reads it.
std::string as_read(const Program& p, ValueId v, const std::string& name) {
  bool values = false, bits = false;
  for (const Node& node : p.nodes) {
    if (node.phase == Phase::forward) continue;
    for (size_t k = 0; k < node.in.size(); ++k) {
      if (node.in[k] != v) continue;
      const Reads::Kind kind = reads_of(*node.op, int(k), node.attrs).kind;
      values |= kind == Reads::Kind::values || kind == Reads::Kind::exact;
      bits |= kind == Reads::Kind::predicate;
    }
  }
  if (values) return name;
  return bits ? name + " (one bit an element)" : "";
}

struct Layer {
  const OpDef* op;
  std::vector<std::string> operands, results;
  const char* paper;
};

}  // namespace

std::string backward_reads(const OpDef& op, const std::vector<std::string>& operands,
                           const std::vector<std::string>& results) {
  Builder b;
  std::vector<Val> in, wrt;
  for (const ExampleOperand& operand : op.examples[0].operands) {
    in.push_back(operand.absent ? Val{} : b.input(std::to_string(in.size()), operand.spec));
    const bool is_float = operand.spec.dtype == DType::f32;
    if (!operand.absent && operand.differentiable && is_float) wrt.push_back(in.back());
  }
  const std::vector<Val> out = b.emit(op, in, op.examples[0].attrs);
  differentiate(b, sum_all(out[0]), wrt);
  std::string text;
  auto add = [&](Val v, const std::string& name) {
    const std::string read = v ? as_read(b.program(), v.id, name) : "";
    if (!read.empty()) text += read + ", ";
  };
  for (size_t k = 0; k < std::min(in.size(), operands.size()); ++k) add(in[k], operands[k]);
  for (size_t k = 0; k < std::min(out.size(), results.size()); ++k) add(out[k], results[k]);
  return text + "dY";
}

std::vector<Table> gist_fig4(const DeviceProfile&) {
  const Layer layers[] = {
      {&relu_op, {"X"}, {"Y"}, "Y, dY"},
      {&max_pool_op, {"X"}, {"Y", "map of 4 bits"}, "CNTK: X, Y, dY; Gist: map of 4 bits, dY"},
      {&conv2d_op, {"X", "W", "bias"}, {"Y"}, "X, dY"},
      {&matmul_op, {"X", "W"}, {"Y"}, "-"},
      {&avg_pool_op, {"X"}, {"Y"}, "-"},
      {&global_avg_pool_op, {"X"}, {"Y"}, "-"},
      {&lrn_op, {"X"}, {"Y"}, "-"},
      {&batch_norm_op, {"X", "gain", "shift"}, {"Y", "mean", "deviation"}, "-"},
      {&dropout_op, {"X", "seed"}, {"Y"}, "-"},
      {&concatenate_op, {"X", "X2", "X3"}, {"Y"}, "-"},
  };
  Table table{
      .title = "What a layer's gradient reads",
      .columns = {"layer", "paper: circled", "ours: reads"},
      .notes = {"Ours: read off the gradient that is recorded, with what its operators say "
                "that they ask of an operand. W is no map. -: the figure has no such layer."}};
  for (const Layer& layer : layers) {
    table.rows.push_back(
        {layer.op->name, layer.paper, backward_reads(*layer.op, layer.operands, layer.results)});
  }
  return {table};
}

std::vector<Table> gist_fig7(const DeviceProfile&) {
  // Times and sizes, MB, of X, A, B, C, D; and with X encoded, of X, its code, what is decoded, and
  // A, B, C, D.
  const std::vector<Buffer> before = {{0, 6, 10}, {1, 2, 8}, {2, 3, 6}, {3, 4, 8}, {4, 5, 4}};
  const std::vector<Buffer> after = {{0, 1, 10}, {0, 6, 2}, {5, 6, 10}, {1, 2, 8},
                                     {2, 3, 6},  {3, 4, 8}, {4, 5, 4}};
  auto of = [](const std::string& title, const std::vector<std::string>& names,
               const std::vector<Buffer>& buffers, const std::string& paper) {
    Table table{.title = title, .columns = {"variable", "alive", "MB", "group"}};
    const SharingGroups groups = sharing_groups(buffers);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& b = buffers[i];
      table.rows.push_back({names[i], std::to_string(b.lower) + " to " + std::to_string(b.upper),
                            std::to_string(b.size), std::to_string(groups.of[i] + 1)});
    }
    table.rows.push_back({"in all", "", std::to_string(groups.bytes), ""});
    table.rows.push_back({"paper", "", paper, ""});
    return table;
  };
  std::vector<Table> tables = {
      of("(a) Baseline, predicted", {"X", "A", "B", "C", "D"}, before, "18"),
      of("(b) With SSDC, predicted", {"X, forward", "X, encoded", "X, decoded", "A", "B", "C", "D"},
         after, "12")};
  tables.back().notes = {
      "Sizes of X and of the groups are the paper's; lifetimes and the sizes of "
      "A to D are not in its text, and chosen to have its groups."};
  return tables;
}

int64_t binarized(int64_t bytes) { return bytes / 32; }
int64_t pool_map(int64_t result_bytes) { return result_bytes / 8; }

int64_t reduced(int64_t bytes, const char* format) {
  Dpr known{};
  if (!read_name(format, known)) throw ProgramError(std::string("[gist] no format ") + format);
  return dpr_bytes(known, bytes / 4);
}

int64_t ssdc_csr(int64_t bytes, double density, const char* format) {
  const int64_t elements = bytes / 4, stored = int64_t(std::ceil(double(elements) * density));
  const int64_t values = format ? reduced(4 * stored, format) : 4 * stored;
  return values + stored + (elements + 255) / 256 * 4;
}

int64_t ssdc_smaller(int64_t bytes, double density, const char* format) {
  const int64_t elements = bytes / 4, stored = int64_t(std::ceil(double(elements) * density));
  const int64_t values = format ? reduced(4 * stored, format) : 4 * stored;
  const int64_t mask = values + (elements + 255) / 256 * (4 + 32);
  return std::min(mask, ssdc_csr(bytes, density, format));
}

GistFootprint gist_simulation(const Program& program, const GistEncodings& with) {
  const GistFootprint dense =
      gist_footprint(program, {.inplace = with.inplace, .pool_map = with.binarize});
  std::vector<EncodedMap> encoded;
  for (const GistStash& stash : stashes_of(program, dense)) {
    const bool sparse = is_for_ssdc(stash.pair);
    const Node& maker = program.node(program.value(stash.value).producer);
    const double* density = &with.density;
    if (with.measured) {
      const auto known = with.measured->find(stash.value);
      density = known == with.measured->end() ? nullptr : &known->second;
    }
    if (maker.op == &max_pool_op && stash.value != maker.out[0]) {  // read as it is
      encoded.push_back({stash.value, stash.bytes, false});
    } else if (with.binarize && stash.pair == LayerPair::relu_pool) {
      encoded.push_back({stash.value, binarized(stash.bytes), false});
    } else if (with.ssdc && sparse && density) {
      const auto bytes = with.mask ? ssdc_smaller : ssdc_csr;
      encoded.push_back({stash.value, bytes(stash.bytes, *density, with.dpr), true});
    } else if (with.dpr && program.value(stash.value).spec.dtype == DType::f32) {
      encoded.push_back({stash.value, reduced(stash.bytes, with.dpr), true});
    }
  }
  if (!with.decoded_copies) {
    for (EncodedMap& map : encoded) map.is_decoded = false;
  }
  return with_encoded(dense, encoded);
}

const char* smallest_format(const std::string& network) {
  if (network == "alexnet" || network == "overfeat") return "fp8";
  return network == "inception" ? "fp10" : "fp16";
}

}  // namespace pal
