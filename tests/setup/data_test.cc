#include "setup/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "engine/base/file_system.h"
#include "engine/base/sha256.h"
#include "engine/data/dataset.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

class ScenarioDataTest : public testing::FolderTest {
 protected:
  void SetUp() override {
    scenario_.path = "small.toml";
    scenario_.data.train = Path("made/train.tfrecord");
    scenario_.data.test = Path("made/test.tfrecord");
    scenario_.data.synth.kind = "digits";
    scenario_.data.synth.settings["writers"] = int64_t{3};
    scenario_.data.synth.settings["test_writers"] = int64_t{2};
    scenario_.data.synth.settings["examples_per_writer"] = int64_t{4};
  }

  static std::string DigestOf(const std::string& path) {
    const auto bytes = FileSystem::Default().ReadAll(path);
    EXPECT_OK(bytes);
    return Sha256Of(*bytes).Hex();
  }

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
  ASSERT_OK(FileSystem::Default().CreateFolders(Path("made")));
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
  for (const auto& entry : std::filesystem::directory_iterator(Path("made"))) {
    files += entry.path().extension() == ".tfrecord";
  }
  EXPECT_EQ(files, 1u);
}

TEST_F(ScenarioDataTest, AnotherSeed_OtherDigits) {
  ASSERT_OK(PrepareData(scenario_));
  const std::string first = DigestOf(scenario_.data.train);
  scenario_.data.train += "2";
  scenario_.data.synth.settings["seed"] = int64_t{2};
  ASSERT_OK(PrepareData(scenario_));
  EXPECT_NE(DigestOf(scenario_.data.train), first);
}

TEST_F(ScenarioDataTest, MissingAndNothingGeneratesIt_NamesFileAndKey) {
  scenario_.data.synth.kind = "";
  const Status status = PrepareData(scenario_);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("train.tfrecord: no such file; data.train names it")));
}

TEST_F(ScenarioDataTest, OwnTrainingData_IsNotGenerated) {
  const auto refused = [this] {
    const Status status = PrepareData(scenario_);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound,
                                 HasSubstr("data.synth generates no data under a name that was given")));
    EXPECT_FALSE(std::filesystem::exists(scenario_.data.train));
    return std::string(Message(status));
  };
  scenario_.given = {{"data.train", true}, {"data.test", false}};  // --set data.train beside a file's data.test
  refused();
  scenario_.given["data.test"] = true;  // both are mistyped
  refused();
  scenario_.data.test = "";
  scenario_.given = {{"data.train", false}};  // no test set is named
  ASSERT_OK(FileSystem::Default().CreateFolders(Path("made")));
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), Path("made/trains.tfrecord"), "mine"));
  EXPECT_THAT(refused(), HasSubstr("Did you mean 'trains.tfrecord'?"));
  scenario_.data.test = Path("made/test.tfrecord");
  scenario_.given = {{"data.train", false}, {"data.test", false}};  // beside trains.tfrecord
  refused();
  scenario_.given = {};
  EXPECT_FALSE(TrainsOnOwnData(scenario_));
  EXPECT_OK(PrepareData(scenario_));
}

// A file gives all three, and its own test set is there: the training set is own data under a wrong name.
TEST_F(ScenarioDataTest, OwnTestSetBesideAMistypedTrainingSet_IsRefused) {
  scenario_.given = {{"data.train", false}, {"data.test", false}};
  ASSERT_OK(FileSystem::Default().CreateFolders(Path("made")));
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), scenario_.data.test, "mine"));
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), Path("made/trian.tfrecord"), "mine"));
  EXPECT_THAT(PrepareData(scenario_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("that was given. Did you mean 'trian.tfrecord'?")));
  scenario_.given["data.test"] = true;  // an override names another test set for generated data
  EXPECT_OK(PrepareData(scenario_));
  scenario_.given["data.test"] = false;
  scenario_.data.train = Path("mede/train.tfrecord");
  EXPECT_THAT(PrepareData(scenario_), StatusIs(absl::StatusCode::kNotFound, HasSubstr("under a name that was given")));
  EXPECT_FALSE(std::filesystem::exists(Path("mede")));
}

TEST_F(ScenarioDataTest, GeneratedPairOfGivenNames_IsMadeAgainWhereOneIsLost) {
  scenario_.given = {{"data.train", false}, {"data.test", false}};
  ASSERT_OK(PrepareData(scenario_));
  std::filesystem::remove(scenario_.data.train);
  ASSERT_OK(PrepareData(scenario_));
  EXPECT_TRUE(std::filesystem::exists(scenario_.data.train));
}

// A test set of digits would judge training data that may be somebody's own.
TEST_F(ScenarioDataTest, TestSetBesideGivenTrainingData_IsNotGenerated) {
  ASSERT_OK(FileSystem::Default().CreateFolders(Path("made")));
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), scenario_.data.train, "mine"));
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), Path("made/tests.tfrecord"), "mine"));
  for (const bool by_override : {false, true}) {
    scenario_.given = {{"data.train", false}, {"data.test", by_override}};
    EXPECT_THAT(PrepareData(scenario_),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("no test set beside the training data of data.train. "
                                                                "Did you mean 'tests.tfrecord'?")));
  }
  EXPECT_FALSE(std::filesystem::exists(scenario_.data.test));
}

TEST_F(ScenarioDataTest, NoTrainingDataNamed_IsRefused) {
  scenario_.data.train = "";
  EXPECT_THAT(PrepareData(scenario_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gives no data.train; name a TFRecord file")));
}

TEST_F(ScenarioDataTest, FolderCannotBeMade_SaysWhich) {
  ASSERT_OK(WriteFileAtomically(FileSystem::Default(), Path("made"), "a file"));
  EXPECT_THAT(Message(PrepareData(scenario_)), HasSubstr(Path("made")));
}

TEST_F(ScenarioDataTest, AbsurdCount_IsRefusedAndNothingIsWritten) {
  scenario_.data.synth.settings["writers"] = int64_t{0};
  EXPECT_THAT(PrepareData(scenario_), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(std::filesystem::exists(scenario_.data.train));
}

}  // namespace
}  // namespace rivulet
