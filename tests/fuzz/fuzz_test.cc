// What a search has found once, and a small search of its own in every build: seeds must be accepted, or nothing behind
// the first check would be tried; cases and changed seeds must come to an end without a crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "engine/base/file_system.h"
#include "tests/fuzz/target.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::fuzz {
namespace {

constexpr int kChangedSeeds = 2'000;

class FuzzTest : public ::testing::TestWithParam<const Target*> {};

// One to four of: a bit turned, a byte or a number at the edge of its range, a piece cut out, doubled, moved or taken
// from another seed.
std::string Changed(const std::vector<std::string>& seeds, std::mt19937& random) {
  const auto below = [&](size_t bound) { return bound == 0 ? 0 : random() % bound; };
  std::string bytes = seeds[below(seeds.size())];
  constexpr char kEdges[] = {0, 1, 0x7f, static_cast<char>(0x80), static_cast<char>(0xff)};
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    const size_t at = below(bytes.size());
    const size_t size = below(std::min<size_t>(bytes.size() - at + 1, 16));
    switch (below(7)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = kEdges[below(sizeof(kEdges))];
        break;
      case 2:
        std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), size, kEdges[below(sizeof(kEdges))]);
        break;
      case 3:
        bytes.erase(at, size);
        break;
      case 4:
        bytes.insert(at, bytes.substr(at, size));
        break;
      case 5:
        bytes.resize(at);
        break;
      default: {
        const std::string& other = seeds[below(seeds.size())];
        bytes.insert(at, other.substr(below(other.size() + 1), size));
      }
    }
  }
  return bytes;
}

TEST_P(FuzzTest, Seeds_AreAccepted) {
  const std::vector<std::string> seeds = GetParam()->seeds();
  ASSERT_FALSE(seeds.empty());
  for (size_t i = 0; i < seeds.size(); ++i) EXPECT_TRUE(GetParam()->run(seeds[i])) << "seed " << i;
}

TEST_P(FuzzTest, FoundCases_ComeToAnEnd) {
  const std::string folder = std::string(RIVULET_SOURCE_DIR) + "/tests/fuzz/cases/" + GetParam()->name;
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().filename().string());
    ASSERT_OK_AND_ASSIGN(const std::string bytes, FileSystem::Default().ReadAll(entry.path()));
    GetParam()->run(bytes);
  }
}

TEST_P(FuzzTest, ChangedSeeds_ComeToAnEnd) {
  const std::vector<std::string> seeds = GetParam()->seeds();
  std::mt19937 random(1);
  for (int i = 0; i < kChangedSeeds; ++i) GetParam()->run(Changed(seeds, random));
}

std::vector<const Target*> All() {
  std::vector<const Target*> all;
  for (const Target& target : Targets()) all.push_back(&target);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzTest, ::testing::ValuesIn(All()),
                         [](const auto& info) { return info.param->name; });

}  // namespace
}  // namespace rivulet::fuzz
