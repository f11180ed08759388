// A plan with its own input pipeline: its training data, and operations that are refused.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "client/training/pass_programs.h"
#include "client/training/task_work.h"
#include "client/training/trainer.h"
#include "client/training/training_checkpoint.h"
#include "engine/graph/function.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "federated/algorithms/algorithm.h"
#include "federated/plan/example_source.h"
#include "federated/random/streams.h"
#include "tests/client/training/dying_file_system.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::testing::AllOf;
using testing::DigitExample;
using ::testing::HasSubstr;
using testing::LocalScenario;
using testing::MemoryDataset;
using testing::PatternModel;
using testing::StatusIs;
using testing::Trained;
using testing::TrainOne;

class PlanInput : public testing::FolderTest {
 protected:
  static AttrMap Elements(bool batched) {
    return {{"output_types", std::vector{DType::kFloat32, DType::kInt64}},
            {"output_shapes", batched ? std::vector{Shape{kUnknownDim, 28, 28, 1}, Shape{kUnknownDim}}
                                      : std::vector{Shape{28, 28, 1}, Shape{}}}};
  }
  Output Int(int64_t value) { return scope_.Const(Tensor::Scalar<int64_t>(value)); }
  Output Bound(const std::string& name = "train") {
    AttrMap attrs = Elements(false);
    attrs["name"] = name;
    return scope_.Op("BoundDataset", {}, std::move(attrs), "examples");
  }
  Output Shuffle(Output input, int64_t buffer) {
    return scope_.Op("ShuffleDataset", {input, Int(buffer), Int(0), Int(0)}, Elements(false), "shuffle");
  }
  Output Repeat(Output input, int64_t count) {
    return scope_.Op("RepeatDataset", {input, Int(count)}, Elements(false), "repeat");
  }
  Output Batch(Output input, int64_t size, std::string_view name = "batches") {
    return scope_.Op("BatchDatasetV2", {input, Int(size), scope_.Const(Tensor::Scalar<bool>(false))}, Elements(true),
                     name);
  }
  StatusOr<std::shared_ptr<const Plan>> MakePlan() {
    RIVULET_RETURN_IF_ERROR(scope_.status());
    Scenario scenario = LocalScenario();
    scenario.client.input_graph = Write("input.pb", SerializeGraph(graph_));
    RIVULET_ASSIGN_OR_RETURN(const ModelDef model, Preset(scenario.model.preset));
    RIVULET_ASSIGN_OR_RETURN(std::string bytes, BuildPlan(scenario, model));
    return Plan::Open(std::move(bytes));
  }
  // Of 27 digits under a plan, for two epochs.
  static StatusOr<Trained> Train(const std::shared_ptr<const Plan>& plan, TrainingCheckpoint* checkpoint = nullptr) {
    std::vector<std::string> records;
    for (int i = 0; i < 27; ++i) {
      std::string image(784, '\0');
      for (size_t k = 0; k < image.size(); ++k)
        image[k] = static_cast<char>((k * 7 + static_cast<size_t>(i) * 31) % 256);
      records.push_back(DigitExample(image, i % 10));
    }
    RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan->features()));
    const DatasetExamples examples(std::make_shared<MemoryDataset>(std::move(records)), std::nullopt, decoder);
    RIVULET_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
    Task task;
    task.id = "task";
    task.stream_key = ClientKey(42, "client-1");
    if (checkpoint != nullptr) checkpoint->Begin(WorkOf(task), 27);
    return TrainOne(*trainer, task, "client-1", *PatternModel(*plan), examples, {}, checkpoint);
  }
  StatusOr<Trained> TrainOnThis() {
    RIVULET_ASSIGN_OR_RETURN(const auto plan, MakePlan());
    return Train(plan);
  }
  // All but the clock's.
  static std::pair<Scalars, std::vector<float>> Result(const Trained& result) {
    return {result.declared, result.delta};
  }

  Graph graph_;
  Scope scope_{graph_};
};

TEST_F(PlanInput, TheDefaultWrittenAsAPipeline_GivesTheBuiltInBits) {
  Batch(Shuffle(Bound(), -1), 10);
  ASSERT_OK_AND_ASSIGN(const auto own, TrainOnThis());
  ASSERT_OK_AND_ASSIGN(const auto built_in, Train(testing::LocalPlan()));
  EXPECT_EQ(own.steps, 6);
  EXPECT_EQ(Result(own), Result(built_in));
}

TEST_F(PlanInput, InterruptedAfterAnyStep_GoesOnToTheSameBits) {
  Batch(Shuffle(Bound(), 27), 10);
  ASSERT_OK_AND_ASSIGN(const auto plan, MakePlan());
  ASSERT_OK_AND_ASSIGN(const auto whole, Train(plan));
  const TrainingCheckpoint::Options each_step{.every = std::chrono::milliseconds(0)};
  for (int died = 1; died <= whole.steps; ++died) {
    testing::DyingFileSystem dying(died), counting(1000);
    TrainingCheckpoint first(dying, Path("training"), "client-1", each_step);
    ASSERT_OK(Train(plan, &first));
    TrainingCheckpoint second(counting, Path("training"), "client-1", each_step);
    ASSERT_OK_AND_ASSIGN(const auto gone_on, Train(plan, &second));
    EXPECT_EQ(Result(gone_on), Result(whole)) << died;
    EXPECT_EQ(counting.asked, *whole.steps - died);
    second.Remove();
  }
}

TEST_F(PlanInput, PrefetchAndAnyLargeEnoughBuffer_ChangeNoBit) {
  const Output batches = Batch(Shuffle(Bound(), 27), 10, "plain");
  scope_.Op("PrefetchDataset", {batches, Int(2)}, Elements(true), "batches");
  ASSERT_OK_AND_ASSIGN(const auto own, TrainOnThis());
  ASSERT_OK_AND_ASSIGN(const auto built_in, Train(testing::LocalPlan()));
  EXPECT_EQ(Result(own), Result(built_in));
}

TEST_F(PlanInput, RepeatAndOtherBatches_TrainOnMore) {
  Batch(Repeat(Bound(), 2), 9);
  ASSERT_OK_AND_ASSIGN(const auto own, TrainOnThis());
  EXPECT_EQ(own.steps, 12);
  EXPECT_EQ(own.examples, 27);
}

// The function travels in the plan's bytes; the client calls it for each decoded example.
TEST_F(PlanInput, MapOfExamples_ChangesWhatIsLearned) {
  Graph body;
  const Scope inner(body);
  const Output image = inner.Op("_Arg", {}, {{"T", DType::kFloat32}, {"index", int64_t{0}}}, "image");
  const Output label = inner.Op("_Arg", {}, {{"T", DType::kInt64}, {"index", int64_t{1}}}, "label");
  const Output inverted = inner.Op("Sub", {inner.Const(1.0f), image});
  ASSERT_OK(inner.status());
  ASSERT_OK_AND_ASSIGN(const auto function, Function::Create("invert", std::move(body), {inverted, label}));
  ASSERT_OK(graph_.AddFunction(function));
  AttrMap attrs = Elements(false);
  attrs["f"] = FunctionRef{"invert"};
  attrs["Targuments"] = std::vector<DType>{};
  Batch(scope_.Op("MapDataset", {Shuffle(Bound(), -1)}, std::move(attrs)), 10);
  ASSERT_OK_AND_ASSIGN(const auto own, TrainOnThis());
  ASSERT_OK_AND_ASSIGN(const auto again, TrainOnThis());
  EXPECT_EQ(Result(own), Result(again));
  ASSERT_OK_AND_ASSIGN(const auto built_in, Train(testing::LocalPlan()));
  EXPECT_EQ(own.steps, built_in.steps);
  EXPECT_NE(own.train_loss, built_in.train_loss);
}

TEST_F(PlanInput, EndlessRepeat_EndsWithASentence) {
  Batch(Repeat(Bound(), -1), 500);
  EXPECT_THAT(TrainOnThis(), StatusIs(absl::StatusCode::kResourceExhausted,
                                      AllOf(HasSubstr("the input of plan 'local': "), HasSubstr("all that it may"))));
}

TEST_F(PlanInput, EndlessRepeatIntoABufferOfABillion_EndsWithASentence) {
  Batch(Shuffle(Repeat(Bound(), -1), 1'000'000'000), 10);
  EXPECT_THAT(TrainOnThis(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("all that it may")));
}

TEST_F(PlanInput, NoBatch_IsRefused) {
  Batch(Repeat(Bound(), 0), 10);
  EXPECT_THAT(TrainOnThis(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("gives no batch of the 27 examples of client 'client-1'")));
}

TEST_F(PlanInput, OtherDataOrNoBatches_AreRefusedWithThePlan) {
  Batch(Bound("secrets"), 10, "other");
  EXPECT_THAT(MakePlan(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no node 'batches'")));
  Batch(Bound("secrets"), 10);
  EXPECT_THAT(MakePlan(), StatusIs(absl::StatusCode::kNotFound,
                                   HasSubstr("'secrets' is not bound; this plan's data set is 'train'")));
}

TEST_F(PlanInput, ExamplesInsteadOfBatches_AreRefusedWithThePlan) {
  scope_.Op("RepeatDataset", {Bound(), Int(1)}, Elements(false), "batches");
  EXPECT_THAT(MakePlan(), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("gives (float32[28,28,1], int64[]), but the model is fed with "
                                             "(float32[?,28,28,1], int64[?])")));
}

TEST_F(PlanInput, OpThatIsNoDataset_IsRefusedWithThePlan) {
  scope_.Const(1.0f, "batches");
  EXPECT_THAT(MakePlan(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("and no dataset")));
}

}  // namespace
}  // namespace rivulet
