#include "simulations/scenario_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "engine/base/file_system.h"
#include "engine/base/sha256.h"
#include "engine/data/dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class ScenarioDataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fmt::format("{}/scenario-data-{}-{}", ::testing::TempDir(), info->name(), getpid());
    std::filesystem::remove_all(folder_);
    scenario_.path = "small.toml";
    scenario_.data.train = folder_ + "/made/train.tfrecord";
    scenario_.data.test = folder_ + "/made/test.tfrecord";
    scenario_.data.synth.kind = "digits";
    scenario_.data.synth.writers = 3;
    scenario_.data.synth.test_writers = 2;
    scenario_.data.synth.examples_per_writer = 4;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string DigestOf(const std::string& path) {
    const auto bytes = FileSystem::Default().ReadAll(path);
    EXPECT_OK(bytes);
    return Sha256Of(*bytes).Hex();
  }

  std::string folder_;
  Scenario scenario_;
};

TEST_F(ScenarioDataTest, NothingThere_BothFilesAreMadeWithTheirWriters) {
  ASSERT_OK(PrepareData(scenario_));
  const auto train = Dataset::Open({scenario_.data.train}), test = Dataset::Open({scenario_.data.test});
  ASSERT_OK(train);
  ASSERT_OK(test);
  EXPECT_EQ((*train)->size(), 12);
  EXPECT_EQ((*test)->size(), 8);
  std::set<std::string> writers;
  std::string record;
  for (int64_t i = 0; i < 12; ++i) {
    ASSERT_OK((*train)->Read(i, record));
    std::string_view writer;
    ASSERT_OK(FindBytesFeature(record, "writer", &writer));
    writers.emplace(writer);
  }
  EXPECT_EQ(writers.size(), 3u);
}

TEST_F(ScenarioDataTest, FilesThere_AreLeftAsTheyAre) {
  ASSERT_OK(FileSystem::Default().CreateFolders(folder_ + "/made"));
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), scenario_.data.train, "mine"));
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), scenario_.data.test, "too"));
  ASSERT_OK(PrepareData(scenario_));
  EXPECT_EQ(*FileSystem::Default().ReadAll(scenario_.data.train), "mine");
  EXPECT_EQ(*FileSystem::Default().ReadAll(scenario_.data.test), "too");
}

TEST_F(ScenarioDataTest, OneFileMissing_AloneIsMadeAsBefore) {
  ASSERT_OK(PrepareData(scenario_));
  for (const std::string& missing : {scenario_.data.train, scenario_.data.test}) {
    const std::string before = DigestOf(missing);
    const std::string& other = missing == scenario_.data.train ? scenario_.data.test : scenario_.data.train;
    const auto written = std::filesystem::last_write_time(other);
    std::filesystem::remove(missing);
    ASSERT_OK(PrepareData(scenario_));
    EXPECT_EQ(DigestOf(missing), before);
    EXPECT_EQ(std::filesystem::last_write_time(other), written);
  }
}

TEST_F(ScenarioDataTest, NoTestFileWanted_NoneIsMade) {
  scenario_.data.test = "";
  ASSERT_OK(PrepareData(scenario_));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/made")) {
    files += entry.path().extension() == ".tfrecord";
  }
  EXPECT_EQ(files, 1u);
}

TEST_F(ScenarioDataTest, AnotherSeed_OtherDigits) {
  ASSERT_OK(PrepareData(scenario_));
  const std::string first = DigestOf(scenario_.data.train);
  scenario_.data.train += "2";
  scenario_.data.synth.seed = 2;
  ASSERT_OK(PrepareData(scenario_));
  EXPECT_NE(DigestOf(scenario_.data.train), first);
}

TEST_F(ScenarioDataTest, MissingAndNothingGeneratesIt_NamesFileAndKey) {
  scenario_.data.synth.kind = "";
  const Status status = PrepareData(scenario_);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("train.tfrecord: no such file; data.train names it")));
}

TEST_F(ScenarioDataTest, NoTrainingDataNamed_IsRefused) {
  scenario_.data.train = "";
  EXPECT_THAT(PrepareData(scenario_), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ScenarioDataTest, FolderCannotBeMade_SaysWhich) {
  ASSERT_OK(FileSystem::Default().CreateFolders(folder_));
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), folder_ + "/made", "a file"));
  EXPECT_THAT(Message(PrepareData(scenario_)), HasSubstr(folder_ + "/made"));
}

TEST_F(ScenarioDataTest, AbsurdCount_IsRefusedAndNothingIsWritten) {
  scenario_.data.synth.writers = 0;
  EXPECT_THAT(PrepareData(scenario_), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(std::filesystem::exists(scenario_.data.train));
}

}  // namespace
}  // namespace rivulet
