// What a search has found once, and a small search of its own in every build: seeds must be accepted, or nothing behind
// the first check would be tried; cases and changed seeds must come to an end without a crash.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "engine/base/file_system.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/target.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::fuzz {
namespace {

constexpr int kChangedSeeds = 2'000;

class FuzzTest : public ::testing::TestWithParam<const Target*> {};

std::string PathOf(const char* folder, const Target& target) {
  return std::string(RIVULET_SOURCE_DIR) + "/tests/fuzz/" + folder + "/" + target.name;
}

TEST_P(FuzzTest, Seeds_AreAccepted) {
  const std::vector<std::string> seeds = GetParam()->seeds();
  ASSERT_FALSE(seeds.empty());
  for (size_t i = 0; i < seeds.size(); ++i) EXPECT_TRUE(GetParam()->run(seeds[i])) << "seed " << i;
}

TEST_P(FuzzTest, FoundCases_ComeToAnEnd) {
  const std::string folder = PathOf("cases", *GetParam());
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
  for (int i = 0; i < kChangedSeeds; ++i) GetParam()->run(ChangedBytes(seeds[random() % seeds.size()], seeds, random));
}

// What searches have come to, so that another compiler and another machine try it too.
TEST_P(FuzzTest, Corpus_ComesToAnEnd) {
  const std::string path = PathOf("corpora", *GetParam());
  if (!std::filesystem::exists(path)) return;
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> inputs, ReadCorpus(path));
  EXPECT_FALSE(inputs.empty());
  for (const std::string& input : inputs) GetParam()->run(input);
}

// A search goes by them, so they have to stay among what is accepted now and then.
TEST_P(FuzzTest, ChangesWithinTheStructure_ComeToAnEndAndSomeAreAccepted) {
  if (!GetParam()->change) return;
  const std::vector<std::string> seeds = GetParam()->seeds();
  std::mt19937 random(1);
  const auto change = [&](std::string_view bytes) { return ChangedBytes(std::string(bytes), seeds, random); };
  int accepted = 0;
  for (int i = 0; i < kChangedSeeds; ++i) {
    accepted += GetParam()->run(GetParam()->change(seeds[random() % seeds.size()], random, change)) ? 1 : 0;
  }
  EXPECT_GE(accepted, kChangedSeeds / 100);
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
