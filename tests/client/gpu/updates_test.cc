// What happens to updates on their way, where they were trained and on the host: the same sums, refusals and remains,
// to the bit, for any lanes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "client/gpu_trainer.h"
#include "client/pass_programs.h"
#include "client/update_pipeline.h"
#include "engine/gpu/emulated/emulated_backend.h"
#include "federated/aggregation/aggregation.h"
#include "tests/client/gpu/trained_clients.h"
#include "tests/client/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::Client;
using testing::ClientsOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using testing::LocalPlan;
using testing::LocalScenario;
using ::testing::Not;
using testing::PatternModel;

using Values = std::vector<float>;

// What has come of the updates of all clients.
struct Folded {
  std::vector<std::vector<int64_t>> sums;  // by part
  std::vector<int64_t> nonzeros, lost;
  std::vector<std::string> sentences;  // by client; "": it was folded
  std::vector<double> norms;
  std::vector<std::vector<Values>> left_out;  // by client and part
};

class GpuSentUpdatesTest : public ::testing::Test {
 protected:
  static Scenario Encoded(const std::string& codec) {
    Scenario scenario = LocalScenario();
    scenario.update.codec = codec;
    scenario.update.fraction = 0.02;
    scenario.client.epochs = 1;
    scenario.server.clients_per_round = 16;
    scenario.data.partition.clients = 16;
    return scenario;
  }

  void Use(const Scenario& scenario, const std::vector<int>& sizes) {
    plan_ = LocalPlan(scenario);
    base_ = PatternModel(*plan_);
    clients_ = ClientsOf(*plan_, sizes);
    vectors_.clear();
    broadcasts_.clear();
    for (size_t v = 0; v < plan_->flat_names().broadcast.size(); ++v) {
      AlignedBuffer& vector = vectors_.emplace_back(plan_->layout()->trained_bytes());
      std::memset(vector.data(), 0, vector.size());
    }
    for (const AlignedBuffer& vector : vectors_) broadcasts_.push_back(&vector);
    auto device = GpuDevice::Open(gpu::EmulatedBackend(), 0);
    ASSERT_OK(device);
    auto trainer = NewGpuTrainer(std::make_shared<PassPrograms>(plan_), {*device});
    ASSERT_OK(trainer);
    trainer_ = *std::move(trainer);
    auto pipeline = UpdatePipeline::Create(*plan_);
    ASSERT_OK(pipeline);
    pipeline_ = *std::move(pipeline);
  }

  // What client `client` begins with beside its task, as a few rounds would leave it.
  std::span<const NamedState> BeginOf(size_t client) {
    const std::span<const NamedState> beside = pipeline_->Begin(client);
    for (const NamedState& one : beside) {
      for (size_t i = 0; i < one.values.size(); ++i) {
        one.values[i] = 1e-3f * static_cast<float>((i * 31 + client * 7) % 41) - 0.02f;
      }
      if (client == spoilt_) one.values[5] = std::numeric_limits<float>::quiet_NaN();
    }
    return beside;
  }

  // `group` at a time, folded where they were trained, or by the host.
  Folded TrainAndFold(size_t group, bool leave) {
    Folded folded;
    EXPECT_EQ(trainer_->LeaveParts(leave), leave);
    auto aggregation = Aggregation::Create(plan_->aggregation());
    EXPECT_OK(aggregation);
    for (size_t first = 0; first < clients_.size(); first += group) {
      std::vector<LaneTask> lanes;
      for (size_t i = first; i < std::min(first + group, clients_.size()); ++i) {
        const Client& client = clients_[i];
        lanes.push_back({&client.task, client.name, base_.get(), client.examples.get(), "", broadcasts_});
        lanes.back().beside = BeginOf(i);
      }
      auto results = trainer_->Train(lanes);
      EXPECT_OK(results);
      if (!results.ok()) return folded;
      std::vector<UpdateView> updates;
      std::vector<Weights> weights;
      for (size_t k = 0; k < lanes.size(); ++k) {
        LocalResult& result = (*results)[k];
        EXPECT_OK(result.status);
        auto weighs = WeightsOf(plan_->aggregation(), result.declared, {});
        EXPECT_OK(weighs);
        weights.push_back(*std::move(weighs));
        if (!leave) {
          auto parts = pipeline_->Apply(*lanes[k].task, result.parts, result.declared, first + k);
          EXPECT_OK(parts);
          Take(**aggregation, {lanes[k].task->id, 2, *parts, result.declared}, weights.back(), folded);
        }
        updates.push_back({lanes[k].task->id, 2, result.parts, result.declared});
      }
      if (leave) {
        for (const auto& taken : (*aggregation)->TakeTogether(updates, weights)) Tell(taken, folded);
      }
      for (size_t k = 0; k < lanes.size(); ++k) {
        auto& of_client = folded.left_out.emplace_back();
        for (const NamedState& one : lanes[k].beside) of_client.emplace_back(one.values.begin(), one.values.end());
      }
    }
    for (const Partial& partial : (*aggregation)->Save()) {
      for (const PartSums& part : partial.parts) {
        folded.sums.emplace_back(part.sums.begin(), part.sums.end());
        folded.nonzeros.push_back(part.nonzeros);
        folded.lost.push_back(part.lost_nonzeros);
      }
    }
    return folded;
  }

  static void Take(Aggregation& aggregation, const UpdateView& update, const Weights& weights, Folded& folded) {
    Tell(aggregation.Take(update, weights), folded);
  }
  static void Tell(const StatusOr<Aggregation::Taken>& taken, Folded& folded) {
    folded.sentences.emplace_back(taken.ok() ? "" : Message(taken.status()));
    folded.norms.push_back(taken.ok() ? taken->norm : 0);
  }

  static void ExpectSame(const Folded& a, const Folded& b) {
    EXPECT_EQ(a.sentences, b.sentences);
    EXPECT_EQ(a.sums, b.sums);
    EXPECT_EQ(a.nonzeros, b.nonzeros);
    EXPECT_EQ(a.lost, b.lost);
    ASSERT_EQ(a.norms.size(), b.norms.size());
    for (size_t i = 0; i < a.norms.size(); ++i) EXPECT_NEAR(a.norms[i], b.norms[i], 1e-12 * b.norms[i]);
    ASSERT_EQ(a.left_out.size(), b.left_out.size());
    for (size_t i = 0; i < a.left_out.size(); ++i) {
      ASSERT_EQ(a.left_out[i].size(), b.left_out[i].size());
      for (size_t part = 0; part < a.left_out[i].size(); ++part) {
        const Values &ours = a.left_out[i][part], &theirs = b.left_out[i][part];
        ASSERT_EQ(ours.size(), theirs.size());
        for (size_t k = 0; k < ours.size(); ++k) {
          if (std::isnan(ours[k]) && std::isnan(theirs[k])) continue;
          ASSERT_EQ(std::bit_cast<uint32_t>(ours[k]), std::bit_cast<uint32_t>(theirs[k])) << i << " " << k;
        }
      }
    }
  }

  // What the host makes of the same trainings. Clients of unlike sizes.
  Folded ExpectTheHosts(const Scenario& scenario, const std::vector<int>& sizes = {12, 7, 1, 22, 3}) {
    Use(scenario, sizes);
    const Folded host = TrainAndFold(sizes.size(), false);
    for (const size_t group : {size_t{1}, size_t{3}, sizes.size()}) {
      SCOPED_TRACE(fmt::format("{}, {} at a time", scenario.update.codec, group));
      ExpectSame(TrainAndFold(group, true), host);
    }
    return host;
  }

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Model> base_;
  std::vector<Client> clients_;
  std::vector<AlignedBuffer> vectors_;
  std::vector<const AlignedBuffer*> broadcasts_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<UpdatePipeline> pipeline_;
  size_t spoilt_ = SIZE_MAX;  // the client whose remains are no numbers
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

TEST_F(GpuSentUpdatesTest, TaskWithoutAPlaceForItsRemains_IsRefused) {
  Use(Encoded("sign"), {12});
  EXPECT_TRUE(trainer_->LeaveParts(true));
  const LaneTask lane{&clients_[0].task, clients_[0].name, base_.get(), clients_[0].examples.get()};
  const auto results = trainer_->Train({&lane, 1});
  ASSERT_OK(results);
  EXPECT_THAT((*results)[0].status, testing::StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("left out")));
}

}  // namespace
}  // namespace rivulet
