// What the parts of the emulated runtime share.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <functional>

namespace pal::emulation {

// Answers so, and remembers it for cudaGetLastError.
cudaError_t fail(cudaError_t error);
// Of a setting that lets so many more succeed.
inline bool is_to_fail(int64_t& good) { return good >= 0 && good-- == 0; }
// This thread captures what is queued.
bool is_capturing();
// The same, of calls that a thread may not make while it captures: they spoil what is captured.
bool is_spoiled();
// Does everything that is queued, or until something is done. In order, a stream goes on only where
// those before it cannot: the least favourable for who waits for too little.
void drain(const std::function<bool()>& is_done = nullptr);

}  // namespace pal::emulation
