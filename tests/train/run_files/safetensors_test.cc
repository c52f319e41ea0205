// Safetensors: round trip, the reference implementation's file, damaged files, a full disk.
#include "train/run_files/safetensors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

#include "core/error.h"
#include "tests/support/resource_limit.h"

namespace pal {
namespace {

namespace fs = std::filesystem;

class Safetensors : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "safetensors_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/a.safetensors";
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string slurp(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void spill(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  // A file with that header and so many bytes of data.
  void spill(const std::string& header, size_t data) const {
    const uint64_t length = header.size();
    std::string bytes(8, 0);
    std::memcpy(bytes.data(), &length, 8);
    spill(bytes + header + std::string(data, 'x'));
  }
  // The message of the UsageError that opening and checking throws.
  std::string refusal() const {
    try {
      const SafetensorsFile file = SafetensorsFile::open(path_);
      for (const TensorView& each : file.tensors()) file.check(each);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  }

  std::string folder_, path_;
};

template <typename T>
TensorView view(const std::string& name, const std::string& dtype, std::vector<int64_t> shape,
                const std::vector<T>& data) {
  return {name, dtype, std::move(shape), data.data(), data.size() * sizeof(T)};
}

template <typename T> std::vector<T> values(const SafetensorsFile& file, const std::string& name) {
  const TensorView* found = file.find(name);
  if (found == nullptr) return {};
  std::vector<T> out(found->bytes / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), found->data, found->bytes);
  return out;
}

TEST_F(Safetensors, RoundTrip) {
  const std::vector<float> f = {1.5f, -2, 3e-40f};
  const std::vector<uint16_t> h = {0x3C00}, b = {0x3F80, 0xFF80};
  const std::vector<int32_t> i = {-7, 9};
  const std::vector<int64_t> l = {INT64_MIN};
  const std::vector<uint8_t> u = {0, 255, 7, 1, 2};
  const std::vector<TensorView> tensors = {
      view("z", "F32", {3, 1}, f),
      view("h", "F16", {1}, h),
      view("b", "BF16", {2}, b),
      view("i", "I32", {1, 2}, i),
      view("scalar", "I64", {}, l),
      view("u", "U8", {5}, u),
      {"no rows", "F32", {0, 4}, nullptr, 0},
  };
  save_safetensors(path_, tensors, {{"step", "12"}, {"note", "chữ \"q\"\n"}});
  SafetensorsFile opened = SafetensorsFile::open(path_);
  const SafetensorsFile file = std::move(opened);
  EXPECT_EQ(file.tensors().size(), 7u);
  EXPECT_EQ(file.metadata().at("step"), "12");
  EXPECT_EQ(file.metadata().at("note"), "chữ \"q\"\n");
  for (const TensorView& each : tensors) {
    const TensorView* found = file.find(each.name);
    ASSERT_NE(found, nullptr) << each.name;
    EXPECT_EQ(found->dtype, each.dtype);
    EXPECT_EQ(found->shape, each.shape);
    ASSERT_EQ(found->bytes, each.bytes);
    EXPECT_TRUE(each.bytes == 0 || std::memcmp(found->data, each.data, each.bytes) == 0);
  }
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.find("scalar")->data) % 8, 0u);
  EXPECT_EQ(file.find("absent"), nullptr);
  EXPECT_FALSE(fs::exists(path_ + ".tmp"));
  const std::string first = slurp(path_);
  const std::vector<TensorView> reversed(tensors.rbegin(), tensors.rend());
  save_safetensors(path_, reversed, {{"note", "chữ \"q\"\n"}, {"step", "12"}});
  EXPECT_EQ(slurp(path_), first);  // the order of the arguments leaves no trace
}

// More than is read at once, from a place of no page's beginning.
TEST_F(Safetensors, PiecesOfALargeTensorAreReadInOrder) {
  std::vector<int32_t> numbers(5 << 20);
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::vector<TensorView> tensors{view("t", "I32", {5 << 20}, numbers)};
  save_safetensors(path_, tensors, {});
  const SafetensorsFile file = SafetensorsFile::open(path_);
  const size_t first = 12, bytes = numbers.size() * 4 - 20;
  std::vector<int32_t> read(bytes / 4 + 2, -1);
  file.read(*file.find("t"), first, bytes, read.data() + 1);
  EXPECT_EQ(read.front(), -1);
  EXPECT_EQ(read.back(), -1);
  EXPECT_TRUE(std::equal(read.begin() + 1, read.end() - 1, numbers.begin() + 3));
  EXPECT_EQ(values<int32_t>(file, "t"), numbers) << "the pages can be read again";
}

TEST_F(Safetensors, ReadsTheReferenceImplementation) {
  const SafetensorsFile file =
      SafetensorsFile::open(std::string(PAL_SOURCE_DIR) + "/tests/train/golden/python.safetensors");
  EXPECT_EQ(file.tensors().size(), 8u);
  EXPECT_EQ(file.metadata(),
            (std::map<std::string, std::string>{{"format", "pt"}, {"ghi chú", "xin chào"}}));
  EXPECT_EQ(values<float>(file, "weight"), (std::vector<float>{0, 0.25, 0.5, 0.75, 1, 1.25}));
  EXPECT_EQ(file.find("weight")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(values<uint16_t>(file, "half"), (std::vector<uint16_t>{0x3C00, 0xC000, 0x3800}));
  EXPECT_EQ(values<uint16_t>(file, "brain"), (std::vector<uint16_t>{0x3F80, 0xC000}));
  EXPECT_EQ(values<int32_t>(file, "ids"), (std::vector<int32_t>{-1, 7}));
  EXPECT_EQ(values<int64_t>(file, "step"), (std::vector<int64_t>{int64_t{1} << 40}));
  EXPECT_TRUE(file.find("step")->shape.empty());
  EXPECT_EQ(values<uint8_t>(file, "bytes"), (std::vector<uint8_t>{3, 1, 4}));
  EXPECT_EQ(file.find("none")->shape, (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(values<float>(file, "lớp/0 \"q\""), (std::vector<float>{2.5}));
}

TEST_F(Safetensors, RefusesWhatIsWrong) {
  const auto one = [](const std::string& entry) { return "{\"a\":" + entry + "}"; };
  const std::string good = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  spill(one(good), 4);
  ASSERT_EQ(refusal(), "accepted");
  spill("{}", 0);
  ASSERT_EQ(refusal(), "accepted");
  const struct {
    std::string header;
    size_t data;
    const char* says;
  } cases[] = {
      {"", 0, "does not begin"},
      {"[]", 0, "does not begin"},
      {"{\"a\":", 0, "not valid JSON"},
      {one(good) + "x", 4, "not valid JSON"},
      {"{\"\xFF\":1}", 0, "not valid JSON"},
      {std::string(5000, '{'), 0, "not valid JSON"},
      {"{\"a\":" + std::string(50000, '[') + std::string(50000, ']') + "}", 0, "has not exactly"},
      {"{\"a\":" + good + ",\"a\":" + good + "}", 4, "names 'a' twice"},
      {one(R"({"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]})"), 4, "twice"},
      {"{\"__metadata__\":3}", 0, "not an object"},
      {"{\"__metadata__\":{\"k\":3}}", 0, "not a string"},
      {one("7"), 4, "has not exactly"},
      {one(R"({"dtype":"U8","shape":[4]})"), 4, "has not exactly"},
      {one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1})"), 4, "has not exactly"},
      {one(R"({"dtype":8,"shape":[4],"data_offsets":[0,4]})"), 4, "not a string"},
      {one(R"({"dtype":"F64","shape":[4],"data_offsets":[0,4]})"), 4, "unsupported dtype"},
      {one(R"({"dtype":"U8","shape":4,"data_offsets":[0,4]})"), 4, "not a list"},
      {one(R"({"dtype":"U8","shape":[-4],"data_offsets":[0,4]})"), 4, "impossible dimension"},
      {one(R"({"dtype":"U8","shape":[4.0],"data_offsets":[0,4]})"), 4, "impossible dimension"},
      {one(R"({"dtype":"U8","shape":[1e999],"data_offsets":[0,4]})"), 4, "not valid JSON"},
      {one(R"({"dtype":"U8","shape":["4"],"data_offsets":[0,4]})"), 4, "impossible dimension"},
      {one(R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,4]})"), 4,
       "impossible dimension"},
      {one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"), 0,
       "overflows"},
      {one(R"({"dtype":"U8","shape":[4],"data_offsets":[0]})"), 4, "not two offsets"},
      {one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,-4]})"), 4, "not two offsets"},
      {one(R"({"dtype":"U8","shape":[4],"data_offsets":[4,0]})"), 4, "do not span"},
      {one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,5]})"), 5, "do not span"},
      {one(R"({"dtype":"U8","shape":[4],"data_offsets":[1,5]})"), 5, "gap before tensor 'a'"},
      {one(good), 3, "truncated"},
      {one(good), 5, "1 bytes too many"},
      {"{\"a\":" + good + ",\"b\":" + good + "}", 4, "overlaps another"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
       5, "not aligned"},
  };
  for (const auto& each : cases) {
    spill(each.header, each.data);
    const std::string message = refusal();
    EXPECT_NE(message.find(each.says), std::string::npos) << each.header.substr(0, 200) << "\n"
                                                          << message;
    EXPECT_NE(message.find(path_), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  spill(std::string("\x00\x00\x00\x00\x00\x00\x00\x7F{}", 10));
  EXPECT_NE(refusal().find("100 MB"), std::string::npos);
  fs::remove(path_);
  EXPECT_NE(refusal().find("no such file"), std::string::npos);
  fs::create_directory(path_);
  EXPECT_NE(refusal().find("not a regular file"), std::string::npos);
}

TEST_F(Safetensors, EveryTruncationAndEveryFlippedBitIsFound) {
  const std::vector<float> f = {1, 2, 3};
  const std::vector<TensorView> tensors = {view("weight", "F32", {3}, f),
                                           view("bias", "F32", {1, 3}, f)};
  save_safetensors(path_, tensors, {{"step", "12"}});
  ASSERT_EQ(refusal(), "accepted");
  const std::string whole = slurp(path_);
  for (size_t size = 0; size < whole.size(); ++size) {
    spill(whole.substr(0, size));
    ASSERT_NE(refusal(), "accepted") << size;
  }
  const size_t data = whole.size() - 2 * sizeof(float) * f.size();
  spill(whole);
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](size_t at, char byte) { file.seekp(std::streamoff(at)).put(byte).flush(); };
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      put(at, static_cast<char>(whole[at] ^ (1 << bit)));
      const std::string message = refusal();
      ASSERT_NE(message, "accepted") << "byte " << at << ", bit " << bit;
      ASSERT_NE(message.find(path_), std::string::npos) << message;
      if (at < data) continue;
      // "bias" comes first. The header is whole, and says so; the tensor is named.
      const std::string name = at < data + sizeof(float) * f.size() ? "'bias'" : "'weight'";
      ASSERT_NE(message.find("the bytes of tensor " + name), std::string::npos) << message;
    }
    put(at, whole[at]);
  }
}

TEST_F(Safetensors, ChecksumsAreThoseOfZlib) {
  const std::string text = "123456789";  // its CRC-32 is cbf43926, as every table of them says
  save_safetensors(path_, std::vector<TensorView>{{"w", "U8", {9}, text.data(), text.size()}});
  EXPECT_NE(slurp(path_).find(R"("crc32":"{\"w\":\"cbf43926\"}")"), std::string::npos);
  const SafetensorsFile file = SafetensorsFile::open(path_);
  EXPECT_TRUE(file.metadata().empty());
  EXPECT_THROW(save_safetensors(path_, {}, {{"crc32", "mine"}}), ProgramError);
}

TEST_F(Safetensors, RefusesToSaveNonsense) {
  const std::vector<float> f = {1, 2};
  const auto save = [&](std::vector<TensorView> tensors) { save_safetensors(path_, tensors); };
  EXPECT_THROW(save({view("a", "F32", {2}, f), view("a", "F32", {2}, f)}), ProgramError);
  EXPECT_THROW(save({view("__metadata__", "F32", {2}, f)}), ProgramError);
  EXPECT_THROW(save({view("a", "F64", {2}, f)}), ProgramError);
  EXPECT_THROW(save({view("a", "F32", {3}, f)}), ProgramError);
  EXPECT_THROW(save({view("a\xFF", "F32", {2}, f)}), ProgramError);
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(Safetensors, AFullDiskLeavesThePreviousFileWhole) {
  const std::vector<float> small = {1, 2}, large(1 << 16, 3.0f);
  const std::vector<TensorView> before = {view("a", "F32", {2}, small)};
  const std::vector<TensorView> after = {view("a", "F32", {1 << 16}, large)};
  save_safetensors(path_, before, {});
  const std::string previous = slurp(path_);

  // A limit on file sizes stands in for the full disk: write() fails half-way.
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  int code = 0;
  std::string message;
  try {
    const test::ResourceLimit limit(RLIMIT_FSIZE, 100'000);
    save_safetensors(path_, after, {});
  } catch (const Error& error) {
    code = error.exit_code;
    message = error.what();
  }
  signal(SIGXFSZ, old_handler);

  EXPECT_EQ(code, kExitFailed);
  EXPECT_NE(message.find(path_), std::string::npos) << message;
  EXPECT_EQ(slurp(path_), previous);
  EXPECT_FALSE(fs::exists(path_ + ".tmp"));
  save_safetensors(path_, after, {});
  EXPECT_EQ(values<float>(SafetensorsFile::open(path_), "a"), large);
}

TEST_F(Safetensors, AFolderThatIsMissingIsAFailure) {
  try {
    save_safetensors(folder_ + "/absent/a.safetensors", {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code, kExitFailed);
  }
}

}  // namespace
}  // namespace pal
