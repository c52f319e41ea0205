// Any bytes as a device profile, as a link, as a placement problem, as a list of recordings, and as
// a ladder of buckets: refused in one line that names the file, or what can be written and read
// again.
#include <cmath>
#include <filesystem>

#include "data/ladder_file.h"
#include "data/manifest.h"
#include "tests/fuzz/fuzz.h"
#include "train/commands/place_csv.h"
#include "train/config/links.h"
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

bool link_body(std::string_view bytes) {
  return accepts("link.yaml", [&] {
    const Link link = parse_link(std::string(bytes), "link.yaml");
    const std::string text = link_text(link, {});
    require(link_text(parse_link(text, "again"), {}) == text, "it reads what it writes");
  });
}

// The first byte says what a batch is counted by.
bool ladder_body(std::string_view bytes) {
  if (bytes.empty()) return false;
  const BatchSize batch = bytes[0] % 2 ? BatchSize(8) : BatchSize::of_words(512);
  const MemoryFile memory(bytes.substr(1));
  return accepts(memory.path(), [&] {
    const BucketLadder ladder = load_ladder(memory.path(), batch);
    require(!ladder.buckets.empty() && !ladder.print().empty(), "a ladder has buckets");
    for (int i = 0; i < int(ladder.buckets.size()); ++i) {
      const Bucket& bucket = ladder.buckets[size_t(i)];
      require(ladder.rows(i) > 0, "a batch has rows");
      require(bucket.source > 0 && bucket.source <= kMostLength, "a length of sources");
      require(bucket.target > 0 && bucket.target <= kMostLength, "a length of targets");
    }
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
  static const std::string folder = new_folder("manifest");
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

FuzzTarget fuzz_link() {
  return {{"name: NDR 400\ngb_s: 50  # each way\nlatency_us: 5\nefficiency: 0.9\n",
           "name: \"x\"\ngb_s: 1e3\nlatency_us: 0\nefficiency: 1\n", "name: x\n"},
          {"name: ", "gb_s: ", "latency_us: ", "efficiency: ", "0", "-1", "1e308", ".inf", ".nan",
           "null", "\"", "#", "\n"},
          link_body};
}

FuzzTarget fuzz_ladder() {
  return {{"\x01"
           "5 6\n9 9\n",
           std::string(1, '\0') + "5 6 80\n9 9 48\n", std::string(1, '\0') + "7 8\n10000 10000\n",
           "\x01"
           "9 9\n5 6\n"},
          {"0", "-1", "+1", "10000", "4294967301", "99999999999999999999", " ", "\t", "\n", "\r\n",
           "0x5", "x", "\xEF\xBB\xBF", std::string(1, '\0')},
          ladder_body};
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
