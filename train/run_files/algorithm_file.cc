// Lines are added under a lock on the file, behind what others have added meanwhile.
#include "train/run_files/algorithm_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "data/descriptor.h"
#include "train/config/wording.h"
#include "train/run_files/cache_folder.h"
#include "train/run_files/fingerprint.h"
#include "train/run_files/log.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMostBytes = uintmax_t(16) << 20;  // some 50,000 products

std::string line_of(const std::string& key, const std::string& choice) {
  const std::string rest = choice + " " + key;
  Fingerprint sum;
  sum.take(rest);
  return printed("%016llx ", static_cast<unsigned long long>(sum.value())) + rest;
}

// A file that others wait for. Some file systems have no locks.
class LockedFile {
 public:
  explicit LockedFile(const fs::path& file)
      : descriptor_(::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) return;
    locked_ = uninterrupted([&] { return ::flock(descriptor_, LOCK_EX); }) == 0;
  }
  ~LockedFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  bool is_locked() const { return locked_; }
  std::string text() const {
    std::string out;
    char part[1 << 14];
    for (off_t at = 0; at <= static_cast<off_t>(kMostBytes);) {
      const ssize_t got = ::pread(descriptor_, part, sizeof part, at);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      out.append(part, static_cast<size_t>(got));
      at += got;
    }
    return out;
  }
  bool add(std::string_view text) const { return write_all(descriptor_, text.data(), text.size()); }

 private:
  int descriptor_;
  bool locked_ = false;
};

}  // namespace

AlgorithmFile::AlgorithmFile(const fs::path& run, const fs::path& machine, bool alone)
    : run_(run), alone_(alone) {
  for (const fs::path& file : {run, machine}) {
    if (file.empty()) continue;
    std::error_code none;
    if (fs::file_size(file, none) > kMostBytes && !none) {
      tell_once(file.string() + ": is larger than any list of algorithms; it is left alone");
      continue;
    }
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    read(file, text.str());
    files_.push_back(file);
  }
}

fs::path AlgorithmFile::of_machine() {
  const fs::path cache = cache_folder();
  return cache.empty() ? cache : cache / "algorithms.txt";
}

void AlgorithmFile::tell_once(const std::string& what) {
  if (!std::exchange(told_, true)) log_info(what);
}

void AlgorithmFile::read(const fs::path& file, const std::string& text) {
  Choices& choices = choices_[file];
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const size_t choice = line.find(' ') + 1, key = line.find(' ', choice) + 1;
    const std::string name = key > choice && choice > 0 ? line.substr(key) : "";
    const std::string chosen = name.empty() ? "" : line.substr(choice, key - choice - 1);
    if (name.empty() || line != line_of(name, chosen)) {
      tell_once(file.string() + ": has lines that were not kept whole; they are passed over");
      continue;
    }
    choices.emplace(name, chosen);  // the first one holds
  }
}

std::optional<std::string> AlgorithmFile::find(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  for (const fs::path& file : files_) {
    const Choices& choices = choices_[file];
    const auto found = choices.find(key);
    if (found == choices.end()) continue;
    const std::string choice = found->second;
    for (const fs::path& before : files_) {  // the run keeps what it takes from the machine
      if (before == file) return choice;
      const std::string kept = keep_in(before, key, choice);
      if (kept != choice) return kept;
    }
  }
  return {};
}

std::string AlgorithmFile::keep(const std::string& key, const std::string& choice, bool measured) {
  const std::scoped_lock lock(mutex_);
  std::string kept = choice;
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
    if (measured || *file == run_) kept = keep_in(*file, key, kept);
  }
  return kept;
}

// What that file has of the key from here on.
std::string AlgorithmFile::keep_in(const fs::path& file, const std::string& key,
                                   const std::string& choice) {
  std::error_code ignored;
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), ignored);
  const LockedFile locked(file);
  bool written = false;
  if (locked.is_open() && !locked.is_locked()) {
    tell_once(file.string() + ": cannot be locked (" + std::strerror(errno) +
              "); ranks that choose at once may choose differently");
  }
  if (locked.is_open()) {
    const std::string text = locked.text();
    read(file, text);
    const auto [at, is_new] = choices_[file].emplace(key, choice);
    if (!is_new) return at->second;
    const bool torn = !text.empty() && text.back() != '\n';
    written = locked.add((torn ? "\n" : "") + line_of(key, choice) + "\n");
  }
  if (!written) {
    tell_once(file.string() + ": " + std::strerror(errno) +
              "; which algorithms were the fastest is not kept there");
  }
  return choices_[file].emplace(key, choice).first->second;
}

}  // namespace pal
