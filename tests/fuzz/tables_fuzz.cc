// Any bytes as a device profile, as a placement problem, and as a list of recordings: refused in
// one line that names the file, or what can be written and read again.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "data/manifest.h"
#include "tests/fuzz/fuzz.h"
#include "train/commands/place_csv.h"
#include "train/config/profile.h"

namespace pal {
namespace {

bool profile_body(std::string_view bytes) {
  return accepts("card.yaml", [&] {
    const DeviceProfile profile = parse_profile(std::string(bytes), "card.yaml");
    require(profile.f32 > 0 && std::isfinite(profile.f32), "a rate above 0");
    const std::string text = profile_text(profile, {});
    require(profile_text(parse_profile(text, "again"), {}) == text, "it reads what it writes");
  });
}

bool place_body(std::string_view bytes) {
  return accepts("buffers.csv", [&] {
    const PlaceTable table = parse_place_csv(std::string(bytes), "buffers.csv");
    require(table.lines.size() == table.buffers.size(), "a line a buffer");
    __int128 sum = 0;
    for (const Buffer& buffer : table.buffers) {
      require(buffer.size >= 0 && buffer.lower <= buffer.upper, "a lifetime");
      sum += buffer.size;
    }
    require(sum <= INT64_MAX, "sums fit");
  });
}

// Readers go by the name's end; the first byte says which. Under that name a link to the bytes.
bool manifest_body(std::string_view bytes) {
  if (bytes.empty()) return false;
  constexpr const char* kEnds[] = {".csv", ".tsv", ".jsonl", ".txt"};
  const MemoryFile memory(bytes.substr(1));
  static const std::string folder = [] {
    std::string pattern = (std::filesystem::temp_directory_path() / "manifest_XXXXXX").string();
    return std::string(::mkdtemp(pattern.data()));
  }();
  const std::string path = folder + "/list" + kEnds[static_cast<unsigned char>(bytes[0]) % 4];
  std::filesystem::create_symlink(memory.path(), path);
  const bool accepted = accepts(path, [&] {
    for (const ManifestEntry& entry : read_manifest({path, "data.train_manifest"})) {
      require(!entry.path.empty() && entry.line > 0, "an entry names a file");
    }
  });
  std::filesystem::remove(path);
  return accepted;
}

}  // namespace

FuzzTarget fuzz_profile() {
  return {{"name: A card\nf32_tflops: 13.45\nmemory_gb_s: 616\ncapacity: 11GiB\nunits: 68\n"
           "launch_us: 3.0\nmatmul_efficiency: 0.85\nmemory_efficiency: 0.8\n"
           "link_gb_s: 15.75  # both ways\nlink_efficiency: 0.75\n",
           "name: \"x\"\n", "- 1\n", "name: [a]\n"},
          {"name: ", "f32_tflops: ", "capacity: ", "units: ",     "launch_us: ", ": ",
           "\n",     "\n\n",         "0",          "-1",          "1e308",       "1e-320",
           ".inf",   ".nan",         "1GiB",       "99999999TiB", "null",        "\"",
           "#",      "&a ",          "*a",         "\t"},
          profile_body};
}

FuzzTarget fuzz_place() {
  return {
      {"id,lower,upper,size\na,0,3,64\nb,1,2,128\n",
       "buffer,start,end,size\n1,0,9223372036854775807,1\n", "size,id,upper,lower\r\n4,x,5,0\r\n",
       "id,lower,upper,size,note\na,0,1,9223372036854775806,\"x, y\"\nb,0,1,1,\n"},
      {"id", "lower", "upper", "size", "offset", ",", "\n", "\r\n", "-1", "0",
       "9223372036854775807", "9223372036854775808", "1e3", " ", "\"", "\"\"", "\xFF",
       std::string(1, '\0')},
      place_body};
}

FuzzTarget fuzz_manifest() {
  const std::string zero(1, '\0');
  return {{zero + "path,transcript\na.wav,one two\n\"b,c.wav\",\"say \"\"three\"\"\"\n",
           zero + "file,text,speaker,split\r\na.flac,x,s1,train\r\n",
           "\x01path\ttranscript\na.wav\tone\n",
           "\x02{\"audio_filepath\": \"a.wav\", \"text\": \"one\"}\n{\"path\": \"b\", "
           "\"transcript\": \"\\u00e9\"}\n",
           "\x03path,transcript\n"},
          {"path", "file",   "audio_filepath", "transcript", "text", "speaker", "split", ",",
           "\t",   "\"",     "\"\"",           "{",          "}",    "\\ud800", "null",  "\n",
           "\r\n", "[[[[[[", "\xEF\xBB\xBF",   "\xFF",       zero},
          manifest_body};
}

}  // namespace pal
