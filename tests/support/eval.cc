// Guarded buffers, poison, and the walk over the nodes.
#include "tests/support/eval.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>

#include "core/accelerator.h"
#include "core/boundary.h"
#include "core/error.h"
#include "core/op.h"
#include "tests/support/pinned_pool.h"

namespace pal::test {
namespace {

constexpr int64_t kGuard = 256;  // bytes on either side; more than a vector loop's widest step

// Guard bytes are signalling NaNs (read as floats, relative to the data) whose payload differs from
// place to place and from buffer to buffer: a loop that runs past the end of two buffers cannot
// copy one guard onto an equal one.
std::byte guard_byte(uint32_t seed, int64_t position) {
  const int64_t word = position >= 0 ? position / 4 : (position - 3) / 4;
  uint32_t h = (uint32_t(word) * 0x9E3779B9u) ^ (seed * 0x85EBCA6Bu);
  h ^= h >> 15, h *= 0x2C1B3C6Du, h ^= h >> 12;
  const uint32_t pattern = 0x7FA00000u | (h & 0x1FFFFFu);
  return std::byte(pattern >> (8 * (position - word * 4)));
}

int element_bytes(DType type) { return std::max(1, bits(type) / 8); }

uint16_t to_bf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return uint16_t(u >> 16 | 0x40);
  return uint16_t((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}
float from_bf16(uint16_t h) { return std::bit_cast<float>(uint32_t(h) << 16); }

float from_f16(uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                    : exponent     ? std::ldexp(float(1024 + mantissa), exponent - 25)
                                   : std::ldexp(float(mantissa), -24);
  return h >> 15 ? -magnitude : magnitude;
}
uint16_t to_f16(float x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const float magnitude = std::fabs(x);
  if (std::isnan(x)) return sign | 0x7E00;
  if (magnitude >= 65520) return sign | 0x7C00;
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int ulp = std::max(exponent - 11, -24);  // rounding to whole units in the last place
  const float units = std::nearbyint(std::ldexp(magnitude, -ulp));
  if (ulp == -24) return uint16_t(sign | uint16_t(units));  // subnormal, or the first normal binade
  const int whole = int(units) + ((ulp + 24) << 10);
  return uint16_t(sign | whole);
}

// The first byte that is another than before, but for those that an output shares; `written`: the
// outputs' bytes, by address.
std::optional<int64_t> first_change(std::span<const std::byte> before, const std::byte* now,
                                    std::span<const std::span<const std::byte>> written) {
  const std::byte *at = now, *const end = now + before.size();
  const auto change_below = [&](const std::byte* limit) -> std::optional<int64_t> {
    if (at >= limit) return {};
    const std::byte* const changed = std::mismatch(at, limit, before.data() + (at - now)).first;
    if (changed == limit) return {};
    return changed - now;
  };
  for (const std::span<const std::byte> shared : written) {
    const std::byte* const behind = shared.data() + shared.size();
    if (behind <= at) continue;
    if (shared.data() >= end) break;
    if (const auto changed = change_below(shared.data())) return changed;
    at = std::min(behind, end);
  }
  return change_below(end);
}

}  // namespace

std::vector<float> decode(const TensorSpec& spec, std::span<const std::byte> bytes) {
  std::vector<float> out(
      size_t(spec.layout ? int64_t(bytes.size()) * 8 / bits(spec.dtype) : spec.numel()));
  auto read = [&]<class T>(T, size_t i) {
    T x;
    std::memcpy(&x, bytes.data() + i * sizeof(T), sizeof(T));
    return x;
  };
  for (size_t i = 0; i < out.size(); ++i) {
    switch (spec.dtype) {
      case DType::f32: out[i] = read(float{}, i); break;
      case DType::bf16: out[i] = from_bf16(read(uint16_t{}, i)); break;
      case DType::f16: out[i] = from_f16(read(uint16_t{}, i)); break;
      case DType::i32: out[i] = float(read(int32_t{}, i)); break;
      case DType::u8: out[i] = float(read(uint8_t{}, i)); break;
      case DType::u4: out[i] = float(int(bytes[i / 2]) >> (4 * (i % 2)) & 15); break;
      case DType::bit: out[i] = float(int(bytes[i / 8]) >> (i % 8) & 1); break;
    }
  }
  return out;
}

std::vector<std::byte> encode(const TensorSpec& spec, const std::vector<float>& elements) {
  std::vector<std::byte> bytes(size_t(spec.bytes()));
  auto write = [&](auto x, size_t i) { std::memcpy(bytes.data() + i * sizeof x, &x, sizeof x); };
  for (size_t i = 0; i < elements.size(); ++i) {
    const float x = elements[i];
    switch (spec.dtype) {
      case DType::f32: write(x, i); break;
      case DType::bf16: write(to_bf16(x), i); break;
      case DType::f16: write(to_f16(x), i); break;
      case DType::i32: write(int32_t(x), i); break;
      case DType::u8: write(uint8_t(x), i); break;
      case DType::u4: bytes[i / 2] |= std::byte((int(x) & 15) << (4 * (i % 2))); break;
      case DType::bit: bytes[i / 8] |= std::byte((x > 0 ? 1 : 0) << (i % 8)); break;
    }
  }
  return bytes;
}

std::string first_difference(const TensorSpec& spec, std::span<const std::byte> a,
                             std::span<const std::byte> b) {
  if (a.size() != b.size()) return "sizes differ";
  auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin());
  if (at == a.end()) return "";
  const size_t size = size_t(element_bytes(spec.dtype));
  const size_t i = size_t(at - a.begin()) / size;
  uint32_t x = 0, y = 0;
  std::memcpy(&x, a.data() + i * size, size);
  std::memcpy(&y, b.data() + i * size, size);
  char text[96];
  std::snprintf(text, sizeof text, "%s %zu: 0x%0*x against 0x%0*x",
                bits(spec.dtype) < 8 ? "byte" : "element", i, int(2 * size), x, int(2 * size), y);
  return text;
}

void Evaluator::place(Buffer& buffer, int64_t bytes, int misalignment, uint32_t seed) {
  buffer.bytes = bytes;
  const int64_t size = bytes + 2 * kGuard + 2 * kAlignment;
  if (const auto accelerator = cache_->device().accelerator) {
    buffer.memory = pooled_pinned(*accelerator, size);
  } else {
    buffer.memory = std::make_shared<std::byte[]>(size_t(size));
  }
  const auto base = reinterpret_cast<uintptr_t>(buffer.memory.get()) + kGuard;
  buffer.data = reinterpret_cast<std::byte*>(uintptr_t(align_up(int64_t(base)))) + misalignment;
  for (int64_t i = 1; i <= kGuard; ++i) buffer.data[-i] = guard_byte(seed, -i);
  for (int64_t i = 0; i < kGuard - kAlignment; ++i) buffer.data[bytes + i] = guard_byte(seed, i);
  std::memset(buffer.data, options_.poison, size_t(bytes));
}

std::string Evaluator::check_guards(const Buffer& buffer, uint32_t seed) const {
  if (!buffer.memory) return "";
  for (int64_t i = 1; i <= kGuard; ++i) {
    if (buffer.data[-i] != guard_byte(seed, -i)) {
      return "byte " + std::to_string(i) + " before its beginning was written";
    }
  }
  for (int64_t i = 0; i < kGuard - kAlignment; ++i) {
    if (buffer.data[buffer.bytes + i] != guard_byte(seed, i)) {
      return "byte " + std::to_string(i) + " past its end was written";
    }
  }
  return "";
}

Evaluator::Evaluator(Program program, EvalOptions options)
    : program_(std::move(program)), options_(std::move(options)), cache_(options_.cache) {
  if (!cache_) {
    own_cache_ = std::make_unique<KernelCache>(cpu_device(options_.threads));
    cache_ = own_cache_.get();
  }
  std::vector<Alias> aliases = options_.aliases;
  for (const Node& node : program_.nodes) {
    if (!node.op->writes_state || !options_.updates_in_place) continue;
    for (size_t i = 0; i < node.out.size(); ++i) {
      if (node.out[i] == kNone) continue;
      aliases.push_back({node.out[i], node.in[size_t(written_operand(*node.op, int(i)))]});
    }
  }
  buffers_.resize(program_.values.size());
  std::vector<const Alias*> alias_of(buffers_.size(), nullptr);
  for (const Alias& alias : aliases) alias_of[size_t(alias.value)] = &alias;
  for (size_t v = 0; v < buffers_.size(); ++v) {
    const TensorSpec& spec = program_.values[v].spec;
    buffers_[v].bytes = spec.bytes();
    if (alias_of[v]) continue;
    const int at = (options_.offset + int(v) * options_.stride) % int(kAlignment);
    const int boundary = options_.on_rows
                             ? std::max(int(row_boundary(spec)), int(element_bytes(spec.dtype)))
                             : int(element_bytes(spec.dtype));
    place(buffers_[v], spec.bytes(), at - at % boundary, uint32_t(v));
  }
  for (size_t v = 0; v < buffers_.size(); ++v) {
    size_t root = v;
    int64_t offset = 0;
    while (alias_of[root]) {
      offset += alias_of[root]->offset;
      root = size_t(alias_of[root]->onto);
    }
    if (offset < 0 || offset + buffers_[v].bytes > buffers_[root].bytes) {
      throw ProgramError("value " + std::to_string(v) + " does not fit into the buffer of value " +
                         std::to_string(root));
    }
    buffers_[v].data = buffers_[root].data + offset;
  }
  workspaces_.resize(program_.nodes.size());
  for (NodeId n = 0; n < program_.node_count(); ++n) {
    kernels_.push_back(cache_->get(program_, program_.node(n)));
    place(workspaces_[size_t(n)], kernels_.back()->prepared.workspace, 0, ~uint32_t(n));
  }
}

ValueId Evaluator::find(const std::string& name) const {
  for (auto& input : program_.inputs) {
    if (input.name == name) return input.value;
  }
  if (auto* slot = program_.find_state(name)) return ran_ ? slot->end : slot->start;
  return program_.output(name);
}

void Evaluator::set(ValueId id, const std::vector<float>& elements) {
  const TensorSpec& spec = program_.value(id).spec;
  if (int64_t(elements.size()) != spec.numel()) {
    throw ProgramError("value " + std::to_string(id) + " is " + to_string(spec) + ", got " +
                       std::to_string(elements.size()) + " elements");
  }
  set_bytes(id, encode(spec, elements));
}
void Evaluator::set(const std::string& name, const std::vector<float>& elements) {
  if (auto* slot = program_.find_state(name)) return set(slot->start, elements);
  set(find(name), elements);
}
void Evaluator::set_bytes(ValueId id, std::span<const std::byte> bytes) {
  auto to = data(id);
  if (bytes.size() != to.size()) throw ProgramError("set_bytes: wrong size");
  std::copy(bytes.begin(), bytes.end(), to.begin());
}
std::span<std::byte> Evaluator::data(ValueId id) {
  return {buffers_[size_t(id)].data, size_t(buffers_[size_t(id)].bytes)};
}
std::vector<std::byte> Evaluator::bytes(ValueId id) const {
  const Buffer& b = buffers_[size_t(id)];
  return {b.data, b.data + b.bytes};
}
std::vector<float> Evaluator::floats(ValueId id) const {
  return decode(program_.value(id).spec, bytes(id));
}
std::vector<float> Evaluator::floats(const std::string& name) const { return floats(find(name)); }

std::string Evaluator::describe(NodeId id) const {
  return "[" + std::string(program_.node(id).op->name) + "] node " + std::to_string(id) + ": ";
}

void Evaluator::run_node(NodeId id, bool checked, std::vector<std::string>& problems) {
  const Node& node = program_.node(id);
  const Kernel& kernel = *kernels_[size_t(id)];
  Buffer& workspace = workspaces_[size_t(id)];
  std::vector<void*> in, out;
  for (ValueId v : node.in) in.push_back(v == kNone ? nullptr : buffers_[size_t(v)].data);
  for (ValueId v : node.out) out.push_back(v == kNone ? nullptr : buffers_[size_t(v)].data);
  std::vector<std::vector<std::byte>> before(node.in.size());
  if (checked) {
    for (size_t k = 0; k < in.size(); ++k) {
      if (in[k]) before[k] = bytes(node.in[k]);
    }
    for (ValueId v : node.out) {
      if (v != kNone) std::memset(data(v).data(), options_.poison, data(v).size());
    }
    for (size_t k = 0; k < in.size(); ++k) {  // operands that share bytes with outputs
      if (in[k]) std::copy(before[k].begin(), before[k].end(), data(node.in[k]).begin());
    }
    std::memset(workspace.data, options_.poison, size_t(workspace.bytes));
  }
  const auto accelerator = cache_->device().accelerator;
  Queue queue{.id = kComputeQueue, .workers = options_.threads};
  if (accelerator) queue.stream = accelerator->stream(kComputeQueue);
  kernel.start({.in = in,
                .out = out,
                .in_spec = kernel.in,
                .out_spec = kernel.out,
                .attrs = node.attrs,
                .state = kernel.prepared.state.get(),
                .workspace = workspace.data,
                .queue = queue});
  if (accelerator) accelerator->synchronize();
  if (!checked) return;
  std::vector<std::span<const std::byte>> written;  // by address
  for (ValueId v : node.out) {
    if (v != kNone) written.push_back(data(v));
  }
  std::sort(written.begin(), written.end(),
            [](const auto& one, const auto& other) { return one.data() < other.data(); });
  for (size_t k = 0; k < in.size(); ++k) {
    if (!in[k]) continue;
    const auto changed = first_change(before[k], static_cast<std::byte*>(in[k]), written);
    if (!changed) continue;
    problems.push_back(describe(id) + "byte " + std::to_string(*changed) + " of operand " +
                       std::to_string(k) + " was modified");
  }
  for (auto* list : {&node.in, &node.out}) {
    for (size_t i = 0; i < list->size(); ++i) {
      if ((*list)[i] == kNone) continue;
      std::string bad = check_guards(buffers_[size_t((*list)[i])], uint32_t((*list)[i]));
      if (bad.empty()) continue;
      problems.push_back(describe(id) + (list == &node.in ? "operand " : "output ") +
                         std::to_string(i) + ": " + bad);
    }
  }
  std::string bad = check_guards(workspace, ~uint32_t(id));
  if (!bad.empty()) problems.push_back(describe(id) + "workspace: " + bad);
}

std::vector<std::string> Evaluator::check_run() {
  std::vector<std::string> problems;
  for (NodeId n = 0; n < program_.node_count(); ++n) run_node(n, true, problems);
  ran_ = true;
  return problems;
}

void Evaluator::run() {
  std::vector<std::string> problems;
  for (NodeId n = 0; n < program_.node_count(); ++n) {
    run_node(n, true, problems);
    if (!problems.empty()) throw ProgramError(problems[0]);
  }
  ran_ = true;
}

void Evaluator::run_quietly() {
  std::vector<std::string> problems;
  for (NodeId n = 0; n < program_.node_count(); ++n) run_node(n, false, problems);
  ran_ = true;
}

void Evaluator::next_step() {
  for (auto& slot : program_.state) {
    if (slot.start != slot.end) set_bytes(slot.start, bytes(slot.end));
  }
  ran_ = false;
}

}  // namespace pal::test
