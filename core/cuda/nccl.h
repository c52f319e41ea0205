// NCCL 2, found when first wanted as cuBLASLt is (core/cuda/libraries.h). Few toolkits have its
// header, and a build without it would train no ranks on a machine that has the library: what is
// used of it is declared here, as its manual has it (docs/decisions/nccl-declarations.md).
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <string>

namespace pal {

enum class NcclStatus : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7
};
enum class NcclType : int { bytes = 1, f32 = 7 };  // ncclUint8, ncclFloat32
enum class NcclSum : int { sum = 0 };              // of ncclRedOp_t

struct NcclCommunicator;
using NcclComm = NcclCommunicator*;
struct NcclId {
  char bytes[128];
};

// Pointers are the device's, counts are elements. Calls on a communicator are queued.
struct Nccl {
  NcclStatus (*version)(int* code);
  const char* (*error_string)(NcclStatus);
  NcclStatus (*unique_id)(NcclId*);
  NcclStatus (*init_rank)(NcclComm*, int ranks, NcclId, int rank);
  NcclStatus (*destroy)(NcclComm);
  NcclStatus (*abort)(NcclComm);
  NcclStatus (*async_error)(NcclComm, NcclStatus* found);
  NcclStatus (*group_start)();
  NcclStatus (*group_end)();
  NcclStatus (*send)(const void* from, size_t, NcclType, int peer, NcclComm, cudaStream_t);
  NcclStatus (*receive)(void* to, size_t, NcclType, int peer, NcclComm, cudaStream_t);
  NcclStatus (*all_gather)(const void* piece, void* whole, size_t of_piece, NcclType, NcclComm,
                           cudaStream_t);
  NcclStatus (*all_reduce)(const void* from, void* to, size_t, NcclType, NcclSum, NcclComm,
                           cudaStream_t);
  NcclStatus (*reduce_scatter)(const void* whole, void* piece, size_t of_piece, NcclType, NcclSum,
                               NcclComm, cudaStream_t);
  NcclStatus (*reduce)(const void* from, void* to, size_t, NcclType, NcclSum, int root, NcclComm,
                       cudaStream_t);
};

// The library's functions. UsageError where it is nowhere, is too old, or lacks some of them, which
// are named.
const Nccl& nccl_library();

// "2.28.9" of what ncclGetVersion gives: 22809, and before 2.9 2708.
std::string nccl_version_text(int code);

}  // namespace pal
