// TensorBoard event files: a run's scalars, as `tensorboard --logdir` reads them. Written here byte
// by byte: TFRecord frames (length, masked CRC-32C) around protocol buffers (tensorflow.Event).
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/append_file.h"
#include "train/run_files/metrics.h"

namespace pal {

// Castagnoli's CRC, polynomial 0x1EDC6F41 reflected (RFC 3720, section 12.1).
uint32_t crc32c(std::string_view bytes);

// Appends events to a new file events.out.tfevents.<time>.<process>.<n> in the run's folder, each
// flushed as it is written. A resumed run begins another file, which tells TensorBoard to forget
// what the earlier ones hold beyond the step that it resumes from. A failed write throws Error with
// kExitFailed that names the file.
class EventWriter {
 public:
  // `step`: updates made before the first event.
  EventWriter(const std::filesystem::path& folder, int64_t step);

  void write(const StepRow& row);   // train/loss, lr, grad_norm, samples_per_s, ...
  void write(const ValidRow& row);  // valid/loss, valid/bleu, ...

  const std::filesystem::path& path() const { return path_; }

 private:
  void scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values);
  void append(const std::string& event);

  std::filesystem::path path_;
  AppendFile file_;
};

}  // namespace pal
