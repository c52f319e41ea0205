// Device profiles: the cards that ship, where names are looked for, and every refusal in one line.
#include "train/config/profile.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/variable.h"

namespace pal {
namespace {
namespace fs = std::filesystem;

constexpr const char* kText =
    "name: toy\nf32_tflops: 2\nmemory_gb_s: 100\nunits: 4\nlaunch_us: 1.5\ncapacity: 2GiB\n"
    "matmul_efficiency: 0.5\nmemory_efficiency: 1\n";

TEST(Profile, ReadsUnits) {
  const DeviceProfile p = parse_profile(kText, "toy.yaml");
  EXPECT_EQ(p.name, "toy");
  EXPECT_FALSE(p.measured);
  EXPECT_EQ(p.f32, 2e12);
  EXPECT_EQ(p.vector, 1e12) << "half of f32 where it is not given";
  EXPECT_EQ(p.memory, 1e11);
  EXPECT_EQ(p.launch, 1.5e-6);
  EXPECT_EQ(p.capacity, int64_t{2} << 30);
  EXPECT_EQ(p.link, 0);
}

// f32 is priced as TF32 where it is rounded to it, and nowhere else.
TEST(Profile, Tf32IsWhatThePrecisionSays) {
  const DeviceProfile h200 = load_profile("h200"), v100 = load_profile("v100_16");
  EXPECT_EQ(priced_as(h200, true).tf32, h200.bf16 / 2);
  EXPECT_EQ(priced_as(v100, true).tf32, 0) << "it has none";
  DeviceProfile own = h200;
  own.tf32 = 1e12;
  EXPECT_EQ(priced_as(own, true).tf32, 1e12);
  EXPECT_EQ(priced_as(own, false).tf32, 0);
}

TEST(Profile, ShippedOnesLoadAndAreSane) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(PAL_SOURCE_DIR) / "configs/devices")) {
    const DeviceProfile p = load_profile(entry.path().stem().string());
    EXPECT_FALSE(p.measured) << entry.path();
    EXPECT_TRUE(p.elsewhere) << entry.path();
    EXPECT_GE(p.f16 == 0 ? p.f32 : p.f16, p.f32) << entry.path();
    EXPECT_TRUE(p.f32 > 1e12 && p.f32 < 1e14) << entry.path();
    EXPECT_TRUE(p.memory > 1e11 && p.memory < 1e13) << entry.path();
    EXPECT_TRUE(p.capacity >= int64_t{11} << 30) << entry.path();
    EXPECT_TRUE(p.launch > 1e-7 && p.launch < 1e-4) << entry.path();
    EXPECT_TRUE(p.link > 1e10 && p.units >= 24) << entry.path();
    ++count;
  }
  EXPECT_EQ(count, 9);
  EXPECT_EQ(load_profile("rtx2080ti").name, "RTX 2080 Ti");
  EXPECT_EQ(load_profile("rtx2080ti.yaml").capacity, int64_t{11} << 30);
}

TEST(Profile, TextReadsBackEqual) {
  DeviceProfile p = parse_profile(kText, "toy.yaml");
  p.name = "a: \"b\" # c";
  p.measured = true;
  p.cache = 3.0000000007e11, p.cache_bytes = 3 << 20, p.bf16 = 1.0 / 3 * 1e13, p.tile = 1024;
  const std::string text = profile_text(p, {"one", "two"});
  EXPECT_EQ(text.rfind("# one\n# two\n", 0), 0u);
  const DeviceProfile q = parse_profile(text, "again.yaml");
  EXPECT_EQ(q.name, p.name);
  EXPECT_TRUE(q.measured);
  for (auto field :
       {&DeviceProfile::f32, &DeviceProfile::bf16, &DeviceProfile::vector, &DeviceProfile::memory,
        &DeviceProfile::cache, &DeviceProfile::launch, &DeviceProfile::units, &DeviceProfile::tile,
        &DeviceProfile::matmul_efficiency}) {
    EXPECT_DOUBLE_EQ(q.*field, p.*field) << text;
  }
  EXPECT_EQ(q.cache_bytes, p.cache_bytes);
  EXPECT_EQ(q.capacity, p.capacity);
}

TEST(Profile, EveryFaultIsNamed) {
  const std::string text = kText;
  auto fault = [](const std::string& t) {
    return usage_error_of([&] { parse_profile(t, "p.yaml"); });
  };
  EXPECT_EQ(fault(text), "");
  EXPECT_NE(fault(text + "memory_gbs: 3\n")
                .find("p.yaml:9: memory_gbs: unknown key; did you mean "
                      "memory_gb_s?"),
            std::string::npos)
      << fault(text + "memory_gbs: 3\n");
  EXPECT_NE(
      fault(text + "link_gb_s: fast\n").find("p.yaml:9: link_gb_s: expected a number above 0"),
      std::string::npos);
  EXPECT_NE(fault(text + "link_gb_s: -1\n").find("above 0"), std::string::npos);
  EXPECT_NE(fault(text + "link_efficiency: 1.2\n").find("at most 1"), std::string::npos);
  EXPECT_NE(fault(text + "cache: lots\n").find("p.yaml:9: cache: "), std::string::npos);
  EXPECT_NE(fault(text + "measured: 3\n").find("true or false"), std::string::npos);
  EXPECT_NE(fault("name: toy\n").find("f32_tflops: missing"), std::string::npos);
  EXPECT_NE(fault("[1, 2]\n").find("p.yaml:1: expected a device profile"), std::string::npos);
  EXPECT_NE(fault(text.substr(text.find('\n') + 1)).find("name: missing"), std::string::npos);
}

TEST(Profile, AnUnknownNameListsThoseThereAre) {
  const std::string e = usage_error_of([] { load_profile("a100_8"); });
  EXPECT_NE(e.find("there is no file 'a100_8'"), std::string::npos) << e;
  EXPECT_NE(e.find("did you mean a100_80?"), std::string::npos) << e;
  EXPECT_NE(usage_error_of([] { load_profile("rtx2080t1"); }).find("did you mean rtx2080ti?"),
            std::string::npos);
  for (const char* name : {"rtx2080ti", "titanx", "titanxp", "v100_16", "v100_32", "a100_40",
                           "a100_80", "h200", "cpu"}) {
    EXPECT_NE(e.find(name), std::string::npos) << e;
  }
}

TEST(Profile, CpuIsWhereTheUsersConfigurationIs) {
  const TemporaryFolder folder;
  const fs::path& home = folder.path();
  const Variable config("XDG_CONFIG_HOME", home.string());
  EXPECT_EQ(cpu_profile_path(), home / "palimpsest/cpu.yaml");
  EXPECT_NE(usage_error_of([] { load_profile("cpu"); }).find("pal bench --profile"),
            std::string::npos);
  EXPECT_EQ(default_profile().name, "RTX 2080 Ti");
  EXPECT_FALSE(default_profile().elsewhere) << "it stands for this machine";
  fs::create_directories(home / "palimpsest");
  std::ofstream(home / "palimpsest/cpu.yaml") << kText;
  EXPECT_EQ(load_profile("cpu").name, "toy");
  EXPECT_EQ(default_profile().name, "toy");
  EXPECT_EQ(load_profile((home / "palimpsest/cpu.yaml").string()).name, "toy");
  const Variable none("XDG_CONFIG_HOME", ""), other("HOME", home.string());
  EXPECT_EQ(cpu_profile_path(), home / ".config/palimpsest/cpu.yaml");
}

}  // namespace
}  // namespace pal
