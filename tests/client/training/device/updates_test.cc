// Processing of updates on the training device and on the host: the same sums, refusals and residuals, to the bit, for
// any number of lanes.
#include "tests/client/training/device/sent_updates.h"
#include "tests/emulated_gpu/emulated_backend.h"

namespace rivulet {
namespace {

using ::testing::Contains;
using ::testing::Each;
using testing::Folded;
using ::testing::HasSubstr;

class GpuSentUpdatesTest : public testing::SentUpdatesTest {
 protected:
  ~GpuSentUpdatesTest() override { gpu::SetEmulatedSettings({}); }
  std::shared_ptr<GpuDevice> Open() const override {
    auto device = GpuDevice::Open(gpu::EmulatedBackend(), 0);
    EXPECT_OK(device);
    return device.ok() ? *device : nullptr;
  }
};

TEST_F(GpuSentUpdatesTest, EveryCodec_FoldsToTheHostsBits) {
  for (const char* codec : {"f32", "f16", "bf16", "int4", "int8", "qsgd2", "qsgd4", "qsgd8", "elias1", "elias7",
                            "elias127", "random_k", "eden1", "eden2", "eden3", "eden4"}) {
    const Folded host = ExpectTheHosts(Encoded(codec));
    EXPECT_THAT(host.sentences, Each(""));
    EXPECT_GT(host.nonzeros[0], 0);
  }
}

// What was left out before is in what is sent, and what is left out now is the client's again.
TEST_F(GpuSentUpdatesTest, ErrorFeedback_IsAVectorOfEachLane) {
  for (const char* codec : {"top_k", "sign"}) {
    const Folded host = ExpectTheHosts(Encoded(codec));
    ASSERT_EQ(host.left_out.size(), 5u);
    EXPECT_EQ(host.left_out[0].size(), 1u);
    EXPECT_NE(host.left_out[0], host.left_out[1]);
    Scenario without = Encoded(codec);
    without.update.error_feedback = false;
    EXPECT_TRUE(ExpectTheHosts(without).left_out[0].empty());
  }
}

// Each part has draws of its own, and values of clients lie behind each other.
TEST_F(GpuSentUpdatesTest, SeveralParts_AreSentEach) {
  for (const char* codec : {"int8", "random_k", "sign"}) {
    Scenario scenario = Encoded(codec);
    scenario.algorithm.name = "scaffold";
    EXPECT_EQ(ExpectTheHosts(scenario).sums.size(), 2u);
  }
}

// The clip is one that nobody reaches: beyond it the factor is the device's own in its last bits (clip.h).
TEST_F(GpuSentUpdatesTest, SeededNoise_IsAddedBeforeTheCodec) {
  for (const char* codec : {"f32", "bf16", "int8"}) {
    Scenario scenario = Encoded(codec);
    scenario.server.weights = "uniform";
    scenario.privacy.clip = 1000;
    scenario.privacy.noise = 1e-5;
    scenario.privacy.noise_source = "seeded";
    const Folded noisy = ExpectTheHosts(scenario);
    EXPECT_THAT(noisy.sentences, Each(""));
    scenario.privacy.noise = 0;
    EXPECT_NE(ExpectTheHosts(scenario).sums, noisy.sums);
  }
}

// Clipped, noisy and encoded: near the host's, and the same for any lanes.
TEST_F(GpuSentUpdatesTest, ClippedNoisyUpdates_AreTheSameForAnyLanes) {
  Scenario scenario = Encoded("int8");
  scenario.server.weights = "uniform";
  scenario.privacy.clip = 0.3;
  scenario.privacy.noise = 0.01;
  scenario.privacy.noise_source = "seeded";
  Use(scenario, {12, 7, 1, 45, 10});
  const Folded one = TrainAndFold(1, true), host = TrainAndFold(5, false);
  for (const size_t group : {2, 5}) ExpectSame(TrainAndFold(group, true), one);
  const double unit = std::ldexp(1.0, -plan_->aggregation().fraction_bits(plan_->aggregation().parts[0]));
  double most = 0;
  size_t off = 0;
  for (size_t i = 0; i < host.sums[0].size(); ++i) {
    const double apart = std::abs(static_cast<double>(one.sums[0][i] - host.sums[0][i])) * unit;
    most = std::max(most, apart);
    off += apart > 1e-6;  // a value that was rounded the other way
  }
  EXPECT_LT(off, host.sums[0].size() / 100);
  EXPECT_LT(most, 0.05);
  EXPECT_GT(host.nonzeros[0], 0);
}

// A lane that is refused is taken out of the sums again, and of the others nothing.
TEST_F(GpuSentUpdatesTest, ValuesBeyondTheBound_AreTakenOutAgain) {
  for (const auto& [codec, bits] :
       {std::pair{"int8", -5}, {"top_k", -5}, {"random_k", 0}, {"eden4", -5}, {"sign", -7}}) {
    SCOPED_TRACE(codec);
    Scenario scenario = Encoded(codec);
    scenario.update.error_feedback = false;
    scenario.server.value_bits = bits;
    const std::vector<std::string> sentences = ExpectTheHosts(scenario).sentences;
    EXPECT_THAT(sentences, Contains(HasSubstr("server.value_bits")));
    EXPECT_THAT(sentences, Contains(""));
  }
}

TEST_F(GpuSentUpdatesTest, UpdatesThatAreNoNumbers_AreRefusedInTheHostsWords) {
  for (const char* codec : {"int8", "elias7", "eden1"}) {
    Use(Encoded(codec), {12, 7, 3});
    auto spoilt = std::make_shared<Model>(plan_->layout());
    for (const Slice& slice : plan_->layout()->slices()) {
      std::ranges::fill(spoilt->tensor(slice).flat<float>(), std::numeric_limits<float>::quiet_NaN());
    }
    base_ = spoilt;
    const Folded host = TrainAndFold(3, false);
    EXPECT_THAT(host.sentences, Each(HasSubstr("nan"))) << codec;
    ExpectSame(TrainAndFold(3, true), host);
  }
}

TEST_F(GpuSentUpdatesTest, RemainsThatAreNoNumbers_SpoilTheirLaneAlone) {
  spoilt_ = 2;
  for (const char* codec : {"top_k", "sign"}) {
    const Folded host = ExpectTheHosts(Encoded(codec));
    for (size_t i = 0; i < host.sentences.size(); ++i) EXPECT_EQ(host.sentences[i].empty(), i != spoilt_) << i;
  }
}

// Their vectors are planned for: as many lanes as are said to fit do.
TEST_F(GpuSentUpdatesTest, Lanes_ArePlannedWithWhatIsSent) {
  gpu::SetEmulatedSettings({.memory_bytes = 6'000'000});
  Scenario scenario = Encoded("sign");
  scenario.server.clients_per_round = 64;
  scenario.data.partition.clients = 64;
  Use(scenario, std::vector<int>(64, 20));
  EXPECT_TRUE(trainer_->LeaveParts(true));
  const int few = trainer_->MostLanes(TaskKind::kTrain, 20);
  EXPECT_GE(few, 2);
  EXPECT_LT(few, 64);
  clients_.resize(static_cast<size_t>(few));
  EXPECT_THAT(TrainAndFold(clients_.size(), true).sentences, Each(""));
  // What the fold has taken is no longer planned for.
  EXPECT_NEAR(trainer_->MostLanes(TaskKind::kTrain, 20), few, 1);
}

TEST_F(GpuSentUpdatesTest, TaskWithoutAPlaceForItsRemains_IsRefused) {
  Use(Encoded("sign"), {12});
  EXPECT_TRUE(trainer_->LeaveParts(true));
  const LaneTask lane{&clients_[0].task, clients_[0].name, base_.get(), clients_[0].examples.get()};
  const auto results = trainer_->Train({&lane, 1});
  ASSERT_OK(results);
  EXPECT_THAT((*results)[0].status,
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("has no place for the error feedback of part 'delta'")));
}

}  // namespace
}  // namespace rivulet
