// cuDNN's graph API: a few operations as one call, and the engine that runs them. Engines are tried
// in the order of the library's heuristics, then of its fallback, and the first that may be is
// taken, which depends on the device and the library's version alone; or one that the caller names.
// docs/decisions/cudnn-convolutions.md has the reasons.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/cuda/cudnn.h"
#include "core/cuda/libraries.h"
#include "ops/libraries/cudnn_shape.h"
#include "ops/libraries/library_scratch.h"

namespace pal {

// An object of the graph API: its attributes are set, it is finished, and may be used. What the
// library does not take, for whatever reason, is done without: engines are compiled as they are
// planned, and parts of the library may be missing.
class GraphObject {
 public:
  explicit GraphObject(cudnnBackendDescriptorType_t type) : type_(type) {
    object_.destroy = library_.backend_destroy;
    check_cudnn(library_.backend_create(type, &object_.get));
  }
  GraphObject(const GraphObject&) = delete;
  GraphObject& operator=(const GraphObject&) = delete;

  cudnnBackendDescriptor_t get() const { return object_.get; }

  template <class T>
  GraphObject& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   const std::vector<T>& values) {
    if (refusal_.empty()) {
      take(library_.backend_set(get(), name, type, int64_t(values.size()), values.data()),
           "attribute " + std::to_string(int(name)));
    }
    return *this;
  }
  GraphObject& set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& numbers) {
    return set(name, CUDNN_TYPE_INT64, numbers);
  }
  GraphObject& set(cudnnBackendAttributeName_t name, const GraphObject& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{other.get()});
  }
  // Whether the library takes it.
  bool finish() {
    if (refusal_.empty()) take(library_.backend_finalize(get()), "as a whole");
    return refusal_.empty();
  }
  // "descriptor 13, attribute 904: CUDNN_STATUS_BAD_PARAM (2000)"; empty: it was taken so far.
  const std::string& refusal() const { return refusal_; }

  // At most as many as `values` has; `count`: how many there are.
  template <class T>
  bool ask(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           std::vector<T>& values, int64_t& count) const {
    return library_.backend_get(get(), name, type, int64_t(values.size()), &count, values.data()) ==
           CUDNN_STATUS_SUCCESS;
  }

 private:
  void take(cudnnStatus_t status, const std::string& what) {
    if (status == CUDNN_STATUS_SUCCESS) return;
    refusal_ = "descriptor " + std::to_string(int(type_)) + ", " + what + ": " + text_of(status);
  }

  const Cudnn& library_ = *cudnn_library();
  cudnnBackendDescriptorType_t type_;
  LibraryObject<cudnnBackendDescriptor_t, cudnnStatus_t> object_;
  std::string refusal_;
};

struct GraphTensor {
  int64_t number;  // in the graph, and in what it is run with
  cudnnDataType_t type;
  std::vector<int64_t> extents;  // images or outputs, channels, then space; channels last in memory
  int64_t boundary;              // that it begins on
  bool handed_on = false;        // from one operation to the next: it is nowhere in memory
};

class CudnnGraph {
 public:
  explicit CudnnGraph(cudnnHandle_t handle) : handle_(handle) {}

  const GraphObject& tensor(const GraphTensor& as);
  const GraphObject& windows(const CudnnShape& shape);
  // A part of another kind, and an operation, which comes behind those before it; f sets its
  // attributes.
  template <class F> const GraphObject& part(cudnnBackendDescriptorType_t type, F f) {
    GraphObject& object = *parts_.emplace_back(std::make_unique<GraphObject>(type));
    f(object);
    if (!object.finish() && why_not_.empty()) why_not_ = object.refusal();
    return object;
  }
  template <class F> void operation(cudnnBackendDescriptorType_t type, F f) {
    operations_.push_back(part(type, f).get());
  }

  // Whether the library takes all that, and there is an engine for it, with so many bytes at most.
  // Operands in f32 may be rounded to TF32. `like`: the engine's settings are to be those, another
  // graph's for example, so that it adds in the same order.
  bool choose(int64_t most_workspace, const std::string* like = nullptr);
  // Of the engine that was chosen, "cudnn:38:27:1": its number, then its knobs, two numbers each.
  // Empty where the library does not say.
  const std::string& settings() const { return settings_; }
  // The settings of all engines that may be taken, each once, the library's best first.
  std::vector<std::string> offered();
  // Where it was not: what was refused, or what became of the engines.
  const std::string& why_not() const { return why_not_; }
  int64_t workspace() const { return library_workspace(bytes_); }

  // A tensor of those that are in memory.
  struct Bound {
    int64_t number;
    const void* data;
  };
  void run(cudaStream_t stream, const std::vector<Bound>& tensors, std::byte* workspace) const;

 private:
  using Objects = std::vector<std::unique_ptr<GraphObject>>;

  const GraphObject& whole();
  Objects engines(const GraphObject& graph, cudnnBackendHeurMode_t mode) const;
  enum class Planned { yes, no_plan, too_large };
  Planned plan(const GraphObject& config, int64_t most_workspace);

  cudnnHandle_t handle_;
  Objects parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::unique_ptr<GraphObject> engine_, plan_;  // of the engine as it is configured
  const GraphObject* whole_ = nullptr;          // of parts_
  std::string settings_;                        // of the engine that was chosen
  int64_t bytes_ = 0;                           // of workspace
  std::string why_not_;
};

// Extents as the graph API has them.
inline std::vector<int64_t> wide(const int* numbers, int n) { return {numbers, numbers + n}; }

}  // namespace pal
