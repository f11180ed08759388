// An interrupted training resumes at its checkpoint with the bits of an uninterrupted one: after any step of any pass,
// and with all state besides the parameters.
#include "client/training/training_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "client/training/pass_programs.h"
#include "client/training/task_work.h"
#include "client/training/trainer.h"
#include "federated/plan/example_source.h"
#include "federated/random/streams.h"
#include "tests/client/training/dying_file_system.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using testing::DigitRecords;
using testing::DyingFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;

Task LongTask(int64_t base_version = 2) {
  Task task;
  task.id = TaskIdOf("run", {TaskKind::kTrain, base_version + 1, 1, "a", 0});
  task.run_id = "run";
  task.client_id = "a";
  task.base_version = base_version;
  task.stream_key = ClientKey(42, "a");
  return task;
}

struct EndOfTraining {
  std::vector<float> values;  // of all parts, one after the other
  Scalars declared;
  std::string state;
  bool operator==(const EndOfTraining&) const = default;
};

class TrainingCheckpointTest : public testing::FolderTest {
 protected:
  TrainingCheckpointTest() : FolderTest(testing::TempFolder::Place::kMemory) {}
  TrainingCheckpoint Open(FileSystem& fs = FileSystem::Default(), const std::string& program = "1") {
    return TrainingCheckpoint(
        fs, Path("training"), "a",
        {std::chrono::milliseconds(0), program, [this](const auto& said) { said_.push_back(said); }});
  }
  // By a process of its own; `checkpoint` null: without.
  static EndOfTraining Train(const std::shared_ptr<const Plan>& plan, TrainingCheckpoint* checkpoint,
                             const Task& task = LongTask(), int examples = 25) {
    auto decoder = ExampleDecoder::Create(plan->features());
    EXPECT_OK(decoder);
    const DatasetExamples data(std::make_shared<MemoryDataset>(DigitRecords(examples)), std::nullopt, *decoder);
    auto trainer = Trainer::Create(std::make_shared<PassPrograms>(plan));
    EXPECT_OK(trainer);
    const auto base = PatternModel(*plan);
    if (checkpoint != nullptr) checkpoint->Begin(WorkOf(task), data.size());
    const LaneTask lane{
        .task = &task, .client_id = "a", .base = base.get(), .examples = &data, .checkpoint = checkpoint};
    auto results = (*trainer)->Train({&lane, 1});
    EXPECT_OK(results);
    EXPECT_OK((*results)[0].status);
    EndOfTraining ended{{}, (*results)[0].declared, (*results)[0].state};
    for (const PartView& part : (*results)[0].parts) {
      for (const FloatRun& run : part.runs) {
        for (int64_t i = 0; i < run.count; ++i) ended.values.push_back(ValueOf(run, i));
      }
    }
    return ended;
  }
  std::vector<std::string> said_;
};

Scenario WithMomentum() {
  Scenario scenario = LocalScenario();
  scenario.client.optimizer.kind = "adam";
  scenario.client.optimizer.learning_rate = 0.01;
  return scenario;
}
Scenario InPasses() {  // Ditto: two passes, and what a client keeps
  Scenario scenario = LocalScenario();
  scenario.algorithm.name = "ditto";
  return scenario;
}
Scenario InSteps() {
  Scenario scenario = LocalScenario();
  scenario.client.epochs = 3;
  scenario.client.batch_size = 4;
  return scenario;
}

TEST_F(TrainingCheckpointTest, ProcessThatDiesAfterAnyStep_IsGoneOnWithToTheSameBits) {
  for (const Scenario& scenario : {WithMomentum(), InPasses(), InSteps()}) {
    SCOPED_TRACE(scenario.algorithm.name + " " + scenario.client.optimizer.kind);
    const auto plan = LocalPlan(scenario);
    const EndOfTraining whole = Train(plan, nullptr);
    int steps = 1;
    for (int died = 1; died <= steps; ++died) {
      SCOPED_TRACE(fmt::format("after step {}", died));
      std::filesystem::remove_all(Path("training"));
      DyingFileSystem dying(died);
      TrainingCheckpoint first = Open(dying);
      EXPECT_EQ(Train(plan, &first), whole) << "writing changes nothing";
      steps = dying.asked;
      ASSERT_GE(steps, 6);
      said_.clear();
      DyingFileSystem counting(1000);
      TrainingCheckpoint second = Open(counting);
      EXPECT_EQ(Train(plan, &second), whole);
      EXPECT_EQ(counting.asked, steps - died) << "steps that were done are not done again";
      EXPECT_THAT(said_, ElementsAre(HasSubstr("resumes after step")));
    }
  }
}

TEST_F(TrainingCheckpointTest, OtherWork_IsNotGoneOnWith) {
  const auto plan = LocalPlan();
  DyingFileSystem dying(2);
  TrainingCheckpoint first = Open(dying);
  Train(plan, &first);
  said_.clear();
  const auto begins_anew = [&](const Task& task, int examples, const std::string& program) {
    const EndOfTraining alone = Train(plan, nullptr, task, examples);
    DyingFileSystem read_only(0);  // the file stays
    TrainingCheckpoint other = Open(read_only, program);
    EXPECT_EQ(Train(plan, &other, task, examples), alone);
    EXPECT_THAT(said_, ElementsAre(HasSubstr("cannot be kept: no space left")));
    said_.clear();
  };
  begins_anew(LongTask(3), 25, "1");
  begins_anew(LongTask(), 24, "1");
  begins_anew(LongTask(), 25, "2");
}

TEST_F(TrainingCheckpointTest, OtherPlan_IsNotGoneOnWith) {
  DyingFileSystem dying(2);
  TrainingCheckpoint first = Open(dying);
  Train(LocalPlan(), &first);
  const auto larger = LocalPlan(WithMomentum());
  TrainingCheckpoint other = Open();
  EXPECT_EQ(Train(larger, &other), Train(larger, nullptr));
}

TEST_F(TrainingCheckpointTest, DamagedFile_BeginsAnewWithASentence) {
  const auto plan = LocalPlan();
  const EndOfTraining whole = Train(plan, nullptr);
  for (const uintmax_t left : {0, 3, 100, 40'000}) {
    DyingFileSystem dying(2);
    TrainingCheckpoint first = Open(dying);
    Train(plan, &first);
    const auto file = std::filesystem::directory_iterator(Path("training"))->path();
    std::filesystem::resize_file(file, left);
    said_.clear();
    TrainingCheckpoint second = Open();
    EXPECT_EQ(Train(plan, &second), whole);
    EXPECT_THAT(said_, ElementsAre(HasSubstr("an interrupted training starts over: ")));
  }
}

TEST_F(TrainingCheckpointTest, FileIsTheOwnersAlone_AndGoesWhenTheTaskIsOver) {
  DyingFileSystem dying(3);
  TrainingCheckpoint checkpoint = Open(dying);
  Train(LocalPlan(), &checkpoint);
  const auto file = std::filesystem::directory_iterator(Path("training"))->path();
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Write("training/" + file.filename().string() + ".tmp-0123456789abcdef", "half");
  Open().Remove();
  EXPECT_TRUE(std::filesystem::is_empty(Path("training")));
}

TEST_F(TrainingCheckpointTest, NotDue_WritesNothing) {
  TrainingCheckpoint checkpoint(FileSystem::Default(), Path("training"), "a", {});
  Train(LocalPlan(), &checkpoint);
  EXPECT_FALSE(std::filesystem::exists(Path("training")));
}

}  // namespace
}  // namespace rivulet
