// SCAFFOLD: its first round is federated averaging with uniform weights; else what NumPy computes in float64
// (reference/scaffold.py).
#include <gmock/gmock.h>

#include "tests/federated/algorithms/pixel_rounds.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::PixelRounds;
using testing::PixelScenario;
using testing::RunPixels;
using testing::StatusIs;

TEST(Scaffold, ThreeRounds_AreNumPysInDouble) {
  Scenario scenario = PixelScenario("scaffold");
  scenario.server.learning_rate = 0.75;
  ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(scenario, 3));
  std::vector<float> found = testing::WeightsOfModel(*run.server.model);
  const std::span<const float> c = run.server.flat("server/c");
  found.insert(found.end(), c.begin(), c.end());
  testing::ExpectReference("scaffold.txt", found);
}

TEST(Scaffold, FirstRound_IsUniformFedAvgToTheBit) {
  for (const char* kernels : {"native", "portable"}) {
    SCOPED_TRACE(kernels);
    Scenario scaffold = PixelScenario("scaffold"), uniform = PixelScenario("fedavg");
    uniform.server.weights = "uniform";
    scaffold.run.kernels = uniform.run.kernels = kernels;
    ASSERT_OK_AND_ASSIGN(const PixelRounds corrected, RunPixels(scaffold, 2));
    ASSERT_OK_AND_ASSIGN(const PixelRounds plain, RunPixels(uniform, 2));
    EXPECT_EQ(corrected.versions[0], plain.versions[0]);
    EXPECT_NE(corrected.versions[1], plain.versions[1]);
  }
}

// A client that has lost what it kept, or has never had any, goes on with zeros: then its next variate is the mean of
// its gradients less what the server's says, whoever it was before.
TEST(Scaffold, WhatIsKept_IsTheMeanOfItsOwnGradients) {
  Scenario one_step = PixelScenario("scaffold");
  one_step.client.epochs = 1;
  one_step.client.batch_size = 5;
  ASSERT_OK_AND_ASSIGN(const PixelRounds run, RunPixels(one_step, 2));
  // Client 0 took part in the first round alone: one step of all its examples at the first model.
  const ModelLayout& layout = *run.plan->layout();
  std::vector<float> kept(layout.segment_bytes(Segment::kTrainable) / sizeof(float));
  ASSERT_OK(ReadState(run.kept.at(0), std::vector<NamedState>{{"c", kept}}));
  double bias_sum = 0;
  const Slice& bias = *layout.Find("b");
  for (size_t k = 0; k < 3; ++k) bias_sum += kept[bias.offset / sizeof(float) + k];
  EXPECT_NEAR(bias_sum, 0, 1e-6);  // probabilities less one-hot labels
  EXPECT_GT(std::abs(kept[bias.offset / sizeof(float)]), 1e-3);
}

TEST(Scaffold, Plan_ReadsTheServersVariateAndSendsTwoParts) {
  ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(PixelScenario("scaffold"), testing::FourPixels()));
  EXPECT_THAT(plan->flat_names().broadcast, ::testing::ElementsAre("c"));
  EXPECT_THAT(plan->flat_names().update, ::testing::ElementsAre("dc"));
  const AggregationSpec& spec = plan->aggregation();
  ASSERT_EQ(spec.parts.size(), 2u);
  EXPECT_EQ(spec.parts[0].name, "delta");
  EXPECT_EQ(spec.Find("dc")->denominator.constant, 3);
  EXPECT_FALSE(spec.weighs_examples());
}

TEST(Scaffold, TaskWithoutTheBroadcast_IsRefusedByName) {
  ASSERT_OK_AND_ASSIGN(const auto plan, ComposePlan(PixelScenario("scaffold"), testing::FourPixels()));
  ASSERT_OK_AND_ASSIGN(const auto decoder, ExampleDecoder::Create(plan->features()));
  const DatasetExamples examples(std::make_shared<testing::MemoryDataset>(testing::FourPixelRecords(0, 5)),
                                 std::nullopt, decoder);
  ASSERT_OK_AND_ASSIGN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  const auto base = testing::FourPixelsBase(*plan);
  const AlignedBuffer small(64);
  const AlignedBuffer* const sent[] = {&small};
  Task task;
  LaneTask lane{&task, "a", base.get(), &examples};
  ASSERT_OK_AND_ASSIGN(std::vector<LocalResult> results, trainer->Train({&lane, 1}));
  EXPECT_THAT(results[0].status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has clients read 1 vectors beside the model, and the task has 0")));
  lane.broadcasts = sent;
  ASSERT_OK_AND_ASSIGN(results, trainer->Train({&lane, 1}));
  EXPECT_THAT(results[0].status, StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("the task's 'broadcast/c' has 64 bytes and plan 'local' reads")));
}

TEST(Scaffold, WhatItsEquationsCannotDo_IsRefusedByName) {
  const auto refusal = [](const std::function<void(Scenario&)>& change) {
    Scenario scenario = PixelScenario("scaffold");
    change(scenario);
    return testing::ErrorOf(ComposePlan(scenario, testing::FourPixels()));
  };
  EXPECT_THAT(refusal([](Scenario& s) { s.data.partition.clients = 0; }),
              HasSubstr("divides by the number of all clients; give it as data.partition.clients"));
  EXPECT_THAT(refusal([](Scenario& s) { s.client.optimizer.kind = "adam"; }),
              HasSubstr("needs client.optimizer.kind = \"sgd\", not \"adam\""));
  EXPECT_THAT(refusal([](Scenario& s) { s.client.schedule.kind = "cosine"; }), HasSubstr("no client.schedule"));
}

}  // namespace
}  // namespace rivulet
