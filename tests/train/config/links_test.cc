// Links: those that ship, how they are put together, and every refusal in one line.
#include "train/config/links.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/variable.h"
#include "train/config/profile.h"

namespace pal {
namespace {

constexpr const char* kToyLink = "name: toy\ngb_s: 2\nlatency_us: 3\nefficiency: 0.5\n";

TEST(LinkFiles, ReadUnits) {
  const Link link = parse_link(kToyLink, "toy.yaml");
  EXPECT_EQ(link.name, "toy");
  EXPECT_EQ(link.rate, 2e9);
  EXPECT_DOUBLE_EQ(link.latency, 3e-6);
  EXPECT_EQ(link.efficiency, 0.5);
}

TEST(LinkFiles, TheMeasuredOneIsWhereTheUsersConfigurationIs) {
  const TemporaryFolder folder;
  const Variable config("XDG_CONFIG_HOME", folder.path().string());
  EXPECT_NE(usage_error_of([] { load_link("measured"); }).find("pal bench --link"),
            std::string::npos);
  const Link link{.name = "two: \"ranks\"", .rate = 3e9, .latency = 4e-6, .efficiency = 1};
  std::filesystem::create_directories(folder.path() / "palimpsest");
  std::ofstream(measured_link_path()) << link_text(link, {"a line", "another"});
  const Link read = load_link("measured");
  EXPECT_EQ(read.name, link.name);
  EXPECT_DOUBLE_EQ(read.rate, link.rate);
  EXPECT_DOUBLE_EQ(read.latency, link.latency);
}

TEST(LinkFiles, ShippedOnesLoadAndAreSane) {
  std::vector<std::string> names = link_names();
  EXPECT_EQ(names, (std::vector<std::string>{"100gbe", "1gbe", "ndr400", "nvlink2", "nvlink4",
                                             "pcie3", "measured"}));
  names.pop_back();
  for (const std::string& name : names) {
    const Link link = load_link(name);
    EXPECT_TRUE(link.rate > 1e8 && link.rate < 1e12) << name;
    EXPECT_TRUE(link.latency > 1e-7 && link.latency < 1e-3) << name;
    EXPECT_TRUE(link.efficiency > 0.4 && link.efficiency <= 1) << name;
  }
  EXPECT_GT(load_link("nvlink4").rate, load_link("nvlink2").rate);
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "own.yaml") << kToyLink;
  EXPECT_EQ(load_link((folder.path() / "own.yaml").string()).name, "toy");
}

TEST(LinkFiles, EveryFaultIsNamed) {
  const std::string text = kToyLink;
  auto fault = [](const std::string& t) {
    return usage_error_of([&] { parse_link(t, "l.yaml"); });
  };
  EXPECT_EQ(fault(text), "");
  EXPECT_EQ(fault(text + "latency_ms: 3\n"),
            "l.yaml:5: latency_ms: unknown key; did you mean latency_us? (there are: name, gb_s, "
            "latency_us, efficiency)");
  EXPECT_EQ(fault("name: toy\ngb_s: much\n"),
            "l.yaml:2: gb_s: expected a number above 0, got the string \"much\"");
  EXPECT_NE(fault("gb_s: 0\n").find("a number above 0"), std::string::npos);
  EXPECT_NE(fault("gb_s: .inf\n").find("a number above 0"), std::string::npos);
  EXPECT_NE(fault("gb_s: 1e308\n").find("a number above 0"), std::string::npos);
  EXPECT_NE(fault("latency_us: 1e-320\n").find("a number above 0"), std::string::npos);
  EXPECT_NE(fault("efficiency: 1.5\n").find("at most 1"), std::string::npos);
  EXPECT_NE(fault("gb_s: [1, 2]\n").find("expected one value, got a list"), std::string::npos);
  EXPECT_EQ(fault("name: toy\ngb_s: 2\nefficiency: 1\n"), "l.yaml: latency_us: missing; add it");
  EXPECT_NE(fault("- 1\n").find("l.yaml:1: expected a link"), std::string::npos);
  const std::string unknown = usage_error_of([] { load_link("nvlink3"); });
  EXPECT_NE(
      unknown.find("--link: there is no file 'nvlink3' and no link of that name; did you mean "
                   "nvlink"),
      std::string::npos)
      << unknown;
  EXPECT_NE(unknown.find("100gbe, 1gbe, ndr400, nvlink2, nvlink4, pcie3"), std::string::npos)
      << unknown;
}

TEST(LinkFiles, AreOneNodeOrTwoLevels) {
  const Links one = links_of(8, {}, "nvlink4");
  EXPECT_EQ(one.per_node, 8);
  EXPECT_EQ(one.nodes(), 1);
  EXPECT_EQ(to_string(one), "NVLink 4");
  const Links two = links_of(1024, 8, "nvlink4,ndr400");
  EXPECT_EQ(two.nodes(), 128);
  EXPECT_EQ(two.between.rate, 50e9);
  EXPECT_EQ(to_string(two), "NVLink 4, between nodes NDR 400");
  EXPECT_EQ(to_string(links_of(1, {}, "")), "none");
  auto fault = [](int64_t devices, std::optional<int64_t> per_node, const char* names) {
    return usage_error_of([&] { links_of(devices, per_node, names); });
  };
  EXPECT_NE(fault(4, {}, "").find("--devices: what joins the 4 devices is not said; add --link"),
            std::string::npos);
  EXPECT_NE(fault(16, {}, "nvlink4,ndr400").find("--per-node 8"), std::string::npos);
  EXPECT_NE(
      fault(16, 3, "nvlink4,ndr400").find("--per-node: 16 devices are not so many nodes of 3"),
      std::string::npos);
  EXPECT_NE(fault(16, 8, "nvlink4").find("--link: 2 nodes of 8 devices need a second link"),
            std::string::npos);
  EXPECT_NE(fault(16, 8, "nvlink4,").find("there is no file ''"), std::string::npos);
  EXPECT_NE(fault(16, 8, "nvlink4,ndr400,pcie3").find("there is no file 'ndr400,pcie3'"),
            std::string::npos);
}

TEST(Profile, HasWattsAndKeepsLinksApart) {
  for (const std::string& name : profile_names()) {
    if (name == "cpu") continue;
    const DeviceProfile p = load_profile(name);
    EXPECT_TRUE(p.busy >= 100 && p.busy <= 1000) << name;
    EXPECT_TRUE(p.idle >= 10 && p.idle < p.busy / 3) << name;
  }
  // Texts differ where links do, and read back as the device.
  DeviceProfile p = load_profile("h200");
  const std::string alone = profile_text(p, {});
  p.links = std::make_shared<const Links>(links_of(8, {}, "nvlink4"));
  const std::string eight = profile_text(p, {});
  p.links = std::make_shared<const Links>(links_of(8, {}, "nvlink2"));
  EXPECT_NE(eight, alone);
  EXPECT_NE(eight, profile_text(p, {}));
  EXPECT_EQ(profile_text(parse_profile(eight, "again.yaml"), {}), alone);
}

}  // namespace
}  // namespace pal
