// Checkpoints: state slots by name in a safetensors file.
#include "train/loop/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "train/loop/ema.h"
#include "train/loop/micro_batch.h"
#include "train/run_files/safetensors.h"

namespace pal {
namespace {

constexpr const char* kTrainerKey = "trainer";

std::string dtype_name(DType type) {
  switch (type) {
    case DType::f32: return "F32";
    case DType::f16: return "F16";
    case DType::bf16: return "BF16";
    case DType::i32: return "I32";
    case DType::u8: return "U8";
    case DType::u4:
    case DType::bit: break;
  }
  throw ProgramError(join_parts("[checkpoint] a state of ", type, " has no safetensors type"));
}

std::vector<int64_t> extents(const Shape& shape) { return {shape.begin(), shape.end()}; }

TensorView view_of(const StateTensor& slot, const TensorSpec& whole) {
  return {slot.name, dtype_name(whole.dtype), extents(whole.shape), slot.data,
          size_t(whole.bytes())};
}

std::string shape_text(const std::string& dtype, const std::vector<int64_t>& shape) {
  std::string out = dtype + "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "," : "") + std::to_string(shape[i]);
  return out + "]";
}

bool is_weight(const StateTensor& slot) {
  return slot.role == Role::weight || slot.role == Role::statistic;
}

// What accumulators hold is of one update: nothing to go on from.
bool is_accumulator(const std::string& name) { return name.starts_with(kAccumulator); }

bool is_kept(const StateTensor& slot, bool all) {
  return is_weight(slot) || (all && !is_accumulator(slot.name));
}

// The 120 of "step-120.safetensors"; -1 for other names.
int64_t step_of(const std::string& name) {
  constexpr std::string_view begin = "step-", end = ".safetensors";
  if (!name.starts_with(begin) || !name.ends_with(end)) return -1;
  const char *first = name.data() + begin.size(), *last = name.data() + name.size() - end.size();
  int64_t step = -1;
  const auto [at, fault] = std::from_chars(first, last, step);
  return fault == std::errc() && at == last ? step : -1;
}

void save(const std::filesystem::path& file, ProgramSet& programs, bool all,
          const std::map<std::string, std::string>& metadata, const ShardedState& sharded) {
  std::vector<TensorView> views;
  std::map<std::string, StateTensor> slots;  // in the order of the file, where pieces are f32
  for (const StateTensor& slot : programs.state()) {
    if (!is_kept(slot, all)) continue;
    views.push_back(view_of(slot, sharded.whole(slot)));
    slots.emplace(slot.name, slot);
  }
  if (!sharded.writes()) {
    for (const auto& [name, slot] : slots) sharded.collect(slot, {});
    return;
  }
  save_safetensors(file.string(), views, metadata,
                   [&](const TensorView& each, const WriteBytes& write) {
                     sharded.collect(slots.at(each.name), write);
                   });
}

// Copies the file's tensors into the slots, after all of them were found to fit and whole.
Loaded load(const SafetensorsFile& source, const std::filesystem::path& file, ProgramSet& programs,
            bool all, const ShardedState& sharded) {
  std::vector<StateTensor> slots;
  for (StateTensor& slot : programs.state()) {
    if (is_kept(slot, all)) slots.push_back(slot);
  }
  std::string faults;
  auto fault = [&](const std::string& what) { faults += (faults.empty() ? "" : "; ") + what; };
  std::set<std::string> known;
  for (const StateTensor& slot : slots) {
    known.insert(slot.name);
    const TensorView* found = source.find(slot.name);
    const TensorSpec& whole = sharded.whole(slot);
    const std::string want = shape_text(dtype_name(whole.dtype), extents(whole.shape));
    if (!found) {
      fault(slot.name + " is missing");
    } else if (std::string have = shape_text(found->dtype, found->shape); have != want) {
      fault(slot.name + " is " + have + ", the model has " + want);
    }
  }
  for (const TensorView& tensor : source.tensors()) {
    if (known.contains(tensor.name) || (!all && !names_weight(tensor.name))) continue;
    if (is_accumulator(tensor.name)) continue;  // earlier versions kept them
    fault(tensor.name + " is not in the model");
  }
  if (!faults.empty()) {
    throw UsageError(file.string() + ": does not fit the model: " + faults +
                     "; use the configuration it was trained with");
  }
  Loaded loaded{file, ""};
  for (const StateTensor& slot : slots) {
    loaded.checksums += slot.name + " " + source.check(*source.find(slot.name)) + "\n";
  }
  for (const StateTensor& slot : slots) {
    const auto [begin, bytes] = sharded.own(slot);
    source.read(*source.find(slot.name), size_t(begin), size_t(bytes), slot.data);
    std::memset(slot.data + bytes, 0, size_t(slot.spec.bytes() - bytes));
  }
  return loaded;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& file, ProgramSet& programs,
                     const TrainerState& state, const ShardedState& sharded) {
  save(file, programs, true, {{kTrainerKey, state.to_json()}}, sharded);
}

TrainerState load_checkpoint(const std::filesystem::path& file, ProgramSet& programs,
                             const ShardedState& sharded, Loaded* loaded) {
  auto source = SafetensorsFile::open(file.string());
  auto found = source.metadata().find(kTrainerKey);
  if (found == source.metadata().end()) {
    throw UsageError(file.string() + ": holds weights but no trainer state; it cannot be resumed");
  }
  TrainerState state = TrainerState::from_json(found->second, file.string());
  const Loaded all = load(source, file, programs, true, sharded);
  if (loaded) *loaded = all;
  return state;
}

bool names_weight(const std::string& tensor) {  // the others have prefixes
  for (const char* prefix : {"optimizer/", kAccumulator, kEmaPrefix}) {
    if (tensor.starts_with(prefix)) return false;
  }
  return true;
}

std::vector<int64_t> kept_checkpoints(const std::filesystem::path& folder) {
  std::vector<int64_t> steps;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (int64_t s = step_of(entry.path().filename().string()); s >= 0) steps.push_back(s);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::filesystem::path kept_checkpoint(const std::filesystem::path& folder, int64_t step) {
  return folder / ("step-" + std::to_string(step) + ".safetensors");
}

void keep_checkpoint(const std::filesystem::path& folder, int64_t step, int64_t keep) {
  namespace fs = std::filesystem;
  if (keep <= 0) return;
  const fs::path last = folder / "last.safetensors";
  const fs::path kept = kept_checkpoint(folder, step);
  const fs::path temporary = kept.string() + ".tmp";
  std::error_code error;
  fs::remove(temporary, error);
  fs::create_hard_link(last, temporary, error);
  if (error) {
    error.clear();
    fs::copy_file(last, temporary, fs::copy_options::overwrite_existing, error);
  }
  if (!error) fs::rename(temporary, kept, error);
  std::error_code ignored;
  fs::remove(temporary, ignored);  // a rename onto the very same file leaves it
  if (error) throw Error(kExitFailed, kept.string() + ": cannot be written: " + error.message());

  const std::vector<int64_t> steps = kept_checkpoints(folder);
  for (size_t i = size_t(keep); i < steps.size(); ++i) {
    fs::remove(kept_checkpoint(folder, steps[i]), ignored);
  }
}

std::filesystem::path initial_file(const std::filesystem::path& from) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(from, ignored)) return from;
  for (const char* name : {"best.safetensors", "last.safetensors"}) {
    if (fs::exists(from / name, ignored)) return from / name;
  }
  throw UsageError("train.init_from: " + from.string() +
                   ": has neither best.safetensors nor "
                   "last.safetensors; name a run's folder or a .safetensors file");
}

Loaded load_initial(const std::filesystem::path& file, ProgramSet& programs,
                    const ShardedState& sharded) {
  try {
    return load_weights(file, programs, sharded);
  } catch (const UsageError& error) {
    throw UsageError(std::string("train.init_from: ") + error.what());
  }
}

void save_weights(const std::filesystem::path& file, ProgramSet& programs,
                  const ShardedState& sharded) {
  save(file, programs, false, {}, sharded);
}

Loaded load_weights(const std::filesystem::path& file, ProgramSet& programs,
                    const ShardedState& sharded) {
  auto source = SafetensorsFile::open(file.string());
  return load(source, file, programs, false, sharded);
}

}  // namespace pal
