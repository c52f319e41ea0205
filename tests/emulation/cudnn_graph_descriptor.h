// The objects of cuDNN's graph API: what may be set of each, and what was.
#pragma once
#include <cudnn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace pal::emulation {

// Engines, best first.
enum Engine : int { kOtherBits, kNoPlan, kMuchWorkspace, kCores, kGood, kEngines };
constexpr int64_t kMuch = int64_t(1) << 40;

struct GraphAttribute {
  cudnnBackendAttributeType_t type;
  std::vector<std::byte> bytes;
};
struct GraphDescriptor {
  cudnnBackendDescriptorType_t type;
  bool finished = false;
  std::map<cudnnBackendAttributeName_t, GraphAttribute> set;
  Engine engine = kEngines;                // of an engine or its configuration
  const GraphDescriptor* graph = nullptr;  // likewise
  int64_t tile = 0;                        // of a knob

  bool has(cudnnBackendAttributeName_t name) const { return set.contains(name); }
  bool is_virtual() const {
    return has(CUDNN_ATTR_TENSOR_IS_VIRTUAL) && one<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  }
  template <class T> std::vector<T> all(cudnnBackendAttributeName_t name) const {
    const std::vector<std::byte>& bytes = set.at(name).bytes;
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
  }
  template <class T> T one(cudnnBackendAttributeName_t name) const { return all<T>(name).at(0); }
  // Other descriptors, which have been finished; null each that has not.
  std::vector<const GraphDescriptor*> parts(cudnnBackendAttributeName_t name) const {
    std::vector<const GraphDescriptor*> out;
    for (auto d : all<cudnnBackendDescriptor_t>(name)) {
      const auto* other = static_cast<GraphDescriptor*>(d);
      out.push_back(other && other->finished ? other : nullptr);
    }
    return out;
  }
  const GraphDescriptor* part(cudnnBackendAttributeName_t name,
                              cudnnBackendDescriptorType_t wanted) const {
    const auto* other = has(name) ? parts(name).at(0) : nullptr;
    return other && other->type == wanted ? other : nullptr;
  }
  const GraphDescriptor* tensor(cudnnBackendAttributeName_t name) const {
    return part(name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  }
};

// What may be set; all of it has to be, unless it is optional.
struct KnownAttribute {
  cudnnBackendDescriptorType_t of;
  cudnnBackendAttributeType_t type;
  int64_t least, most;  // elements
  bool optional = false;
};
const std::map<cudnnBackendAttributeName_t, KnownAttribute>& known_attributes();
int64_t bytes_of(cudnnBackendAttributeType_t type);
bool is_complete(const GraphDescriptor& d);

}  // namespace pal::emulation
