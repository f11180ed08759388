// Fixture for the processing of updates on the device that trained them and by the host: training, update steps such as
// clipping or encoding, and a comparison of the aggregated results.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "client/training/device/gpu_trainer.h"
#include "client/training/pass_programs.h"
#include "client/training/update_pipeline.h"
#include "federated/aggregation/aggregation.h"
#include "tests/client/training/device/trained_clients.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

// The results of all clients' updates.
struct Folded {
  std::vector<std::vector<int64_t>> sums;  // by part
  std::vector<int64_t> nonzeros, lost;
  std::vector<std::string> sentences;  // by client; "": the update was aggregated
  std::vector<double> norms;
  std::vector<std::vector<std::vector<float>>> left_out;  // by client and part
};

// For the device opened by a derived class.
class SentUpdatesTest : public ::testing::Test {
 protected:
  virtual std::shared_ptr<GpuDevice> Open() const = 0;

  static Scenario Encoded(const std::string& codec) {
    Scenario scenario = LocalScenario();
    scenario.update.codec = codec;
    scenario.update.settings["fraction"] = 0.02;
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
    const std::shared_ptr<GpuDevice> device = Open();
    ASSERT_NE(device, nullptr);
    auto trainer = NewGpuTrainer(std::make_shared<PassPrograms>(plan_), {device});
    ASSERT_OK(trainer);
    trainer_ = *std::move(trainer);
    auto pipeline = UpdatePipeline::Create(*plan_);
    ASSERT_OK(pipeline);
    pipeline_ = *std::move(pipeline);
  }

  // The client's state at the start of its task, as after a few rounds.
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

  // Trains `group` clients at a time; updates are aggregated on the device, or by the host.
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
        const std::vector<float>&ours = a.left_out[i][part], &theirs = b.left_out[i][part];
        ASSERT_EQ(ours.size(), theirs.size());
        for (size_t k = 0; k < ours.size(); ++k) {
          if (std::isnan(ours[k]) && std::isnan(theirs[k])) continue;
          ASSERT_EQ(std::bit_cast<uint32_t>(ours[k]), std::bit_cast<uint32_t>(theirs[k])) << i << " " << k;
        }
      }
    }
  }

  // Returns the host's result of the same trainings, with clients of different sizes.
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
  size_t spoilt_ = SIZE_MAX;  // the client whose residual has invalid numbers
};

}  // namespace rivulet::testing
