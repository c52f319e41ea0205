// oneDNN's descriptors as layouts, and starting its primitives without allocating.
#include "ops/libraries/onednn.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"

namespace pal::onednn {
namespace {

void check(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) {
    throw ProgramError(std::string("[oneDNN] ") + what + " failed with status " +
                       std::to_string(int(status)));
  }
}

bool row_major(const Desc& desc) {
  const auto& md = desc.data;
  if (md.format_kind != dnnl_blocked || md.format_desc.blocking.inner_nblks || md.extra.flags) {
    return false;
  }
  int64_t stride = 1;
  for (int i = md.ndims - 1; i >= 0; --i) {
    if (md.dims[i] != 1 && md.format_desc.blocking.strides[i] != stride) return false;
    stride *= md.dims[i];
  }
  return true;
}

// oneDNN's own notation: axes by falling stride, capital where blocked, then the inner blocks:
// "ABcd16b16a". Extents are not in it: they belong to the spec.
std::string tag_of(const Desc& desc) {
  const auto& md = desc.data;
  if (md.format_kind != dnnl_blocked) {  // packed by a kernel of its own (winograd)
    std::string tag = "packed_";
    tag += std::to_string(int(md.format_kind));
    tag += '_';
    return tag += std::to_string(desc.get_size());
  }
  const auto& blocking = md.format_desc.blocking;
  std::vector<int> axes(size_t(md.ndims));
  std::iota(axes.begin(), axes.end(), 0);
  std::stable_sort(axes.begin(), axes.end(),
                   [&](int i, int j) { return blocking.strides[i] > blocking.strides[j]; });
  std::string tag;
  for (int axis : axes) {
    const bool blocked =
        std::count(blocking.inner_idxs, blocking.inner_idxs + blocking.inner_nblks, axis) > 0;
    tag += char((blocked ? 'A' : 'a') + axis);
  }
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    tag += std::to_string(blocking.inner_blks[i]);
    tag += char('a' + blocking.inner_idxs[i]);
  }
  if (md.extra.flags) tag += 'x', tag += std::to_string(md.extra.flags);
  return tag;
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::memory::data_type data_type(DType type) {
  switch (type) {
    case DType::f32: return dnnl::memory::data_type::f32;
    case DType::bf16: return dnnl::memory::data_type::bf16;
    case DType::f16: return dnnl::memory::data_type::f16;
    case DType::i32: return dnnl::memory::data_type::s32;
    case DType::u8: return dnnl::memory::data_type::u8;
    case DType::u4:
    case DType::bit: break;
  }
  throw ProgramError("[oneDNN] has no element type " + std::string(to_string(type)));
}

Desc plain(const TensorSpec& spec) {
  Dims dims(spec.shape.begin(), spec.shape.end()), strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return {dims, data_type(spec.dtype), strides};
}

Desc desc_of(const TensorSpec& spec) {
  if (!spec.layout) return plain(spec);
  return *static_cast<const Desc*>(spec.layout->descriptor.get());
}

Layout layout_of(const Desc& chosen) {
  if (row_major(chosen)) return nullptr;
  return std::make_shared<const BlockedLayout>(BlockedLayout{
      tag_of(chosen), int64_t(chosen.get_size()), std::make_shared<const Desc>(chosen)});
}

dnnl::primitive_attr user_scratchpad(bool add) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (!add) return attr;
  dnnl::post_ops post;
  post.append_sum(1.0f);
  attr.set_post_ops(post);
  return attr;
}

std::unique_ptr<Launch> reorder(const Desc& from, const Desc& to) {
  const dnnl::reorder::primitive_desc pd(engine(), from, engine(), to, user_scratchpad());
  return std::make_unique<Launch>(
      dnnl::reorder(pd), pd.scratchpad_desc(),
      std::vector<std::pair<int, Desc>>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Launch::Launch(const dnnl::primitive& primitive, const Desc& scratchpad,
               std::vector<std::pair<int, Desc>> operands)
    : primitive_(primitive), stream_(engine()), scratch_bytes_(int64_t(scratchpad.get_size())) {
  operands.push_back({DNNL_ARG_SCRATCHPAD, scratchpad});
  memories_.reserve(operands.size());
  for (auto& [arg, desc] : operands) {
    memories_.push_back(dnnl::memory(desc, engine(), DNNL_MEMORY_NONE));
    args_.push_back({arg, memories_.back().get()});
  }
}

void Launch::run(std::initializer_list<const void*> addresses, int threads) {
  const std::lock_guard guard(turn_);
  const ThreadScope scope(threads);
  size_t i = 0;
  for (const void* address : addresses) {
    check(dnnl_memory_set_data_handle(args_[i++].memory, const_cast<void*>(address)),
          "giving a primitive its operands");
  }
  check(dnnl_primitive_execute(primitive_.get(), stream_.get(), int(args_.size()), args_.data()),
        "a primitive");
}

}  // namespace pal::onednn
