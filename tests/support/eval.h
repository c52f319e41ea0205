// Runs a program for a test, without planner or runner: every value in a guarded buffer of its own,
// outputs and workspaces poisoned before each node, guards and operands checked after it. On an
// accelerator the buffers are pinned, so that kernels and the test read the same bytes.
//
//   Evaluator eval(program);
//   eval.set("x", {1, 2, 3});
//   eval.run();                              // ProgramError at the first contract a kernel breaks
//   std::vector<float> y = eval.floats("y");
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/prepare.h"
#include "core/program.h"

namespace pal::test {

// `value` lies `offset` bytes into `onto`'s buffer.
struct Alias {
  ValueId value, onto;
  int64_t offset = 0;
};

struct EvalOptions {
  int threads = 1;
  KernelCache* cache = nullptr;  // prepared kernels to use and to add to; null: its own.
                                 // Its device should have as many threads.
  // Buffer i begins (offset + i * stride) mod 64 bytes past a boundary of 64, rounded down to whole
  // elements, as windows into a larger storage may.
  int offset = 0, stride = 0;
  bool on_rows = false;  // and down to the boundary that rows of the value keep (core/boundary.h)
  unsigned char poison = 0xFF;  // every byte of outputs and workspaces; 0xFF makes NaNs
  std::vector<Alias> aliases = {};
  bool updates_in_place = true;  // a state's next value in the bytes of the old one
};

class Evaluator {
 public:
  explicit Evaluator(Program program, EvalOptions options = {});

  // The value of an input, a state slot (`end` after run, `start` before), or an output.
  ValueId find(const std::string& name) const;

  // From floats, rounded to the value's type; bits are x > 0. ProgramError when the count differs.
  void set(ValueId id, const std::vector<float>& elements);
  void set(const std::string& name, const std::vector<float>& elements);
  void set_bytes(ValueId id, std::span<const std::byte> bytes);
  std::vector<float> floats(ValueId id) const;
  std::vector<float> floats(const std::string& name) const;
  std::vector<std::byte> bytes(ValueId id) const;
  std::span<std::byte> data(ValueId id);
  template <class T> T* as(ValueId id) { return reinterpret_cast<T*>(data(id).data()); }

  // Runs all nodes in order. ProgramError at the first problem, naming node and operand.
  void run();
  // The same, but goes on and returns what was wrong: a byte outside an output or the workspace was
  // written, or an operand was modified that shares no byte with an output.
  std::vector<std::string> check_run();
  // Without any checks or poisoning, for finite differences.
  void run_quietly();
  // Copies every state slot's value at end to its start, for another step.
  void next_step();

  const Program& program() const { return program_; }

 private:
  struct Buffer {
    std::shared_ptr<std::byte[]> memory;  // guard, data, guard; null where the value is an alias
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };
  void place(Buffer& buffer, int64_t bytes, int misalignment, uint32_t seed);
  std::string check_guards(const Buffer& buffer, uint32_t seed) const;
  void run_node(NodeId id, bool checked, std::vector<std::string>& problems);
  std::string describe(NodeId id) const;

  Program program_;
  EvalOptions options_;
  std::unique_ptr<KernelCache> own_cache_;
  KernelCache* cache_;
  std::vector<Buffer> buffers_;  // by value
  ByNode<std::shared_ptr<const Kernel>> kernels_;
  std::vector<Buffer> workspaces_;  // by node
  bool ran_ = false;
};

// Elements as floats and back, by storage type; written independently of the kernels' own loaders.
std::vector<float> decode(const TensorSpec& spec, std::span<const std::byte> bytes);
std::vector<std::byte> encode(const TensorSpec& spec, const std::vector<float>& elements);

// Where two byte strings differ first, as "element 3: 0x3f800000 against 0x7fc00000"; empty if
// nowhere.
std::string first_difference(const TensorSpec& spec, std::span<const std::byte> a,
                             std::span<const std::byte> b);

}  // namespace pal::test
