// Opening NCCL, and what it must have.
#include <dlfcn.h>

#include "core/cuda/library_folders.h"
#include "core/cuda/nccl.h"
#include "core/error.h"

namespace pal {
namespace {

constexpr int kOldestNccl = 20906;  // the first series whose calls can be recorded in graphs

// Looks functions up, and remembers those that are not there.
struct NcclLookup {
  void* handle;
  std::string missing;

  template <class F> void find(const char* name, F*& function) {
    function = reinterpret_cast<F*>(dlsym(handle, name));
    if (!function) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
};

Nccl load_nccl() {
  static constexpr const char* names[] = {"libnccl.so.2", nullptr};
  std::string tried;
  NcclLookup lookup{open_library(names, "nccl", &tried), ""};
  if (!lookup.handle) {
    throw UsageError("ranks on GPUs need NCCL, and libnccl.so.2 was not found (" + tried +
                     "): install libnccl2 or PyTorch's nvidia-nccl wheel, or name its folder in "
                     "PAL_CUDA_LIBRARY_PATH; --device cpu does without");
  }
  Nccl t{};
  lookup.find("ncclGetVersion", t.version);
  lookup.find("ncclGetErrorString", t.error_string);
  lookup.find("ncclGetUniqueId", t.unique_id);
  lookup.find("ncclCommInitRank", t.init_rank);
  lookup.find("ncclCommDestroy", t.destroy);
  lookup.find("ncclCommAbort", t.abort);
  lookup.find("ncclCommGetAsyncError", t.async_error);
  lookup.find("ncclGroupStart", t.group_start);
  lookup.find("ncclGroupEnd", t.group_end);
  lookup.find("ncclSend", t.send);
  lookup.find("ncclRecv", t.receive);
  lookup.find("ncclAllGather", t.all_gather);
  lookup.find("ncclAllReduce", t.all_reduce);
  lookup.find("ncclReduceScatter", t.reduce_scatter);
  lookup.find("ncclReduce", t.reduce);
  int code = 0;
  const bool told = t.version && t.version(&code) == NcclStatus::success;
  const std::string version = told ? nccl_version_text(code) : "of a version that it does not tell";
  if (lookup.missing.empty() && told && code >= kOldestNccl) return t;
  throw UsageError("ranks on GPUs need NCCL " + nccl_version_text(kOldestNccl) +
                   " or newer; the libnccl.so.2 that was found is " + version +
                   (lookup.missing.empty() ? "" : " and has no " + lookup.missing) +
                   ": install a newer one, or name its folder in PAL_CUDA_LIBRARY_PATH");
}

}  // namespace

std::string nccl_version_text(int code) {
  const int unit = code < 10000 ? 1000 : 10000;  // of the first number
  return std::to_string(code / unit) + "." + std::to_string(code % unit / 100) + "." +
         std::to_string(code % 100);
}

const Nccl& nccl_library() {
  static const Nccl table = load_nccl();  // stays open to the program's end
  return table;
}

}  // namespace pal
