// Top-k with error feedback: a client's uploads over several rounds compared with NumPy in double, values that are
// delayed but not lost, and refused combinations.
#include "client/training/update_pipeline.h"
#include "federated/algorithms/algorithm.h"
#include "federated/random/streams.h"
#include "proto/federated/plan.pb.h"
#include "tests/federated/algorithms/reference/top_k.inc"
#include "tests/testing/four_pixels.h"

namespace rivulet {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;

Scenario SparseScenario(double fraction, bool error_feedback = true) {
  Scenario scenario;
  scenario.run.name = "sparse";
  scenario.update.codec = "top_k";
  scenario.update.settings["fraction"] = fraction;
  scenario.update.error_feedback = error_feedback;
  return scenario;
}

// The client's end of one plan over one client's rounds: what it keeps goes through bytes, as between processes.
class SparseClient {
 public:
  explicit SparseClient(const Scenario& scenario)
      : plan_(*ComposePlan(scenario, testing::FourPixels())), pipeline_(*UpdatePipeline::Create(*plan_)) {}

  // What is folded of an update.
  std::vector<float> Send(const std::vector<float>& delta) {
    const std::span<const NamedState> kept = pipeline_->Begin();
    if (!state_.empty()) {
      EXPECT_OK(ReadState(state_, kept));
    }
    const FloatRun run{delta.data(), nullptr, std::ssize(delta)};
    const PartView part{.name = "delta", .runs = {&run, 1}};
    Scalars declared;
    const auto parts = pipeline_->Apply(Task(), {&part, 1}, declared);
    EXPECT_OK(parts);
    if (!kept.empty()) state_ = WriteState(kept);
    const PartSpec& spec = plan_->aggregation().parts[0];
    const auto codec = *Codec::Create(spec.codec, spec.elements, spec.codec_settings);
    EXPECT_OK(codec->Check((*parts)[0].data));
    std::vector<float> sent(delta.size());
    codec->Decode((*parts)[0].data, 0, sent);
    return sent;
  }
  std::vector<float> left_out() {
    const std::span<const NamedState> kept = pipeline_->Begin();
    EXPECT_OK(ReadState(state_, kept));
    return {kept[0].values.begin(), kept[0].values.end()};
  }
  const Plan& plan() const { return *plan_; }

 private:
  const std::shared_ptr<const Plan> plan_;
  const std::unique_ptr<UpdatePipeline> pipeline_;
  std::string state_;
};

TEST(ErrorFeedback, SixRounds_AreWhatNumPyComputesInDouble) {
  namespace numpy = top_k_reference;
  SparseClient client(SparseScenario(static_cast<double>(numpy::kK) / numpy::kSize));
  double largest = 0;
  for (const double value : numpy::kSent) largest = std::max(largest, std::abs(value));
  const auto expect = [&](const std::vector<float>& values, const double* wanted) {
    ASSERT_EQ(values.size(), numpy::kSize);
    for (size_t i = 0; i < numpy::kSize; ++i) EXPECT_NEAR(values[i], wanted[i], 1e-6 * largest) << i;
  };
  for (size_t round = 0; round < numpy::kRounds; ++round) {
    SCOPED_TRACE(round);
    const double* const delta = numpy::kDeltas + round * numpy::kSize;
    const std::vector<float> sent = client.Send(std::vector<float>(delta, delta + numpy::kSize));
    EXPECT_EQ(std::ranges::count_if(sent, [](float value) { return value != 0; }), std::ptrdiff_t{numpy::kK});
    expect(sent, numpy::kSent + round * numpy::kSize);
  }
  expect(client.left_out(), numpy::kLeftOut);
}

// Whole numbers, whose sums are exact.
TEST(ErrorFeedback, WhatIsNotSent_IsLateAndNotLost) {
  SparseClient client(SparseScenario(0.2));
  std::vector<float> wanted(15), sent(15);
  Draws draws(StreamFor(3, "", Purpose::kSynthesize), 0);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> delta(15);
    for (size_t i = 0; i < 15; ++i) wanted[i] += delta[i] = static_cast<float>(draws.Below(19)) - 9;
    const std::vector<float> now = client.Send(delta);
    for (size_t i = 0; i < 15; ++i) sent[i] += now[i];
  }
  const std::vector<float> left_out = client.left_out();
  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(sent[i] + left_out[i], wanted[i]) << i;
  // Without, the small ones are lost for good, and nothing is kept.
  SparseClient forgetful(SparseScenario(0.2, false));
  EXPECT_FALSE(forgetful.plan().keeps_state());
  std::vector<float> delta(15, 1);
  delta[3] = delta[5] = delta[9] = 4;
  for (int round = 0; round < 5; ++round) EXPECT_EQ(forgetful.Send(delta)[0], 0);
}

TEST(ErrorFeedback, EverythingSent_LeavesNothing) {
  SparseClient client(SparseScenario(1));
  EXPECT_TRUE(client.plan().keeps_state());
  const std::vector<float> delta = {1, -2, 0, 0.5f, 1e-30f, 3, 4, 5, 6, 7, 8, 9, -1, -2, -3};
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(client.Send(delta), delta);
    EXPECT_EQ(client.left_out(), std::vector<float>(15));
  }
}

// As of everything that clients keep.
TEST(ErrorFeedback, WhereTasksOutliveVersions_IsRefused) {
  Scenario scenario = SparseScenario(0.1);
  scenario.server.base = "latest";
  EXPECT_THAT(ErrorOf(ComposePlan(scenario, testing::FourPixels())), HasSubstr("or update.error_feedback to false"));
  scenario.update.error_feedback = false;
  EXPECT_OK(ComposePlan(scenario, testing::FourPixels()));
}

// What is sent late is beyond what a clip or noise has been measured by.
TEST(ErrorFeedback, TogetherWithAClip_IsRefused) {
  Scenario scenario = SparseScenario(0.1);
  scenario.privacy.clip = 1;
  EXPECT_THAT(ErrorOf(ComposePlan(scenario, testing::FourPixels())),
              HasSubstr("set update.error_feedback = false, or privacy.clip = 0"));
  scenario.update.error_feedback = false;
  const auto plan = ComposePlan(scenario, testing::FourPixels());
  ASSERT_OK(plan);
  // Nor does a client take such a plan of others.
  proto::Plan message;
  ASSERT_TRUE(message.ParseFromString((*plan)->bytes()));
  message.mutable_aggregation()->mutable_parts(0)->set_error_feedback(true);
  EXPECT_THAT(ErrorOf(Plan::Open(message.SerializeAsString())),
              HasSubstr("so that its mechanism 'clip' would bound and hide less than stated"));
}

}  // namespace
}  // namespace rivulet
