// 16-bit products, scaled losses and TF32 for many clients at once: each lane has a separate scale, skips its own
// steps, and has the same bits with any other lanes.
#include <gtest/gtest.h>

#include "client/training/device/gpu_trainer.h"
#include "client/training/pass_programs.h"
#include "tests/client/training/device/trained_clients.h"
#include "tests/emulated_gpu/emulated_backend.h"

namespace rivulet {
namespace {

using testing::Came;
using testing::ClientsOf;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::PatternModel;
using testing::TrainAll;

Scenario With(const std::string& precision, const std::string& scaling, double scale, int64_t growth_steps = 2) {
  Scenario scenario = LocalScenario();
  scenario.client.precision = precision;
  scenario.client.optimizer.kind = "momentum";
  scenario.client.optimizer.settings["momentum"] = 0.9;
  scenario.client.loss_scale = {.kind = scaling, .settings = {{"scale", scale}, {"growth_steps", growth_steps}}};
  return scenario;
}

std::unique_ptr<Trainer> OnDevice(const std::shared_ptr<const Plan>& plan, const GpuOptions& options) {
  auto device = GpuDevice::Open(gpu::EmulatedBackend(), 0, options);
  EXPECT_OK(device);
  auto trainer = NewGpuTrainer(std::make_shared<PassPrograms>(plan), {*device, 64});
  EXPECT_OK(trainer);
  return *std::move(trainer);
}

// Updates alone: what a pass tells of its losses is rounded too.
void ExpectUpdatesNear(const std::vector<Came>& device, const std::vector<Came>& host, float tolerance) {
  ASSERT_EQ(device.size(), host.size());
  for (size_t i = 0; i < device.size(); ++i) {
    ASSERT_OK(device[i].status);
    ASSERT_OK(host[i].status);
    EXPECT_EQ(device[i].steps, host[i].steps);
    for (const auto& [name, values] : host[i].parts) {
      const std::vector<float>& ours = device[i].parts.at(name);
      ASSERT_EQ(ours.size(), values.size());
      for (size_t k = 0; k < values.size(); ++k) ASSERT_NEAR(ours[k], values[k], tolerance) << name << " " << k;
    }
  }
}

// Clients of unlike sizes one at a time, as the host trains them, and in groups.
void ExpectAnyLanes(const Scenario& scenario, float tolerance, const GpuOptions& options = {}) {
  const auto plan = LocalPlan(scenario);
  const auto base = PatternModel(*plan);
  const auto clients = ClientsOf(*plan, {40, 12, 70, 25, 3});
  const std::vector<Came> one = TrainAll(*OnDevice(plan, options), clients, *base, 1);
  auto host = Trainer::Create(std::make_shared<PassPrograms>(plan));
  ASSERT_OK(host);
  ExpectUpdatesNear(one, TrainAll(**host, clients, *base, 1), tolerance);
  for (const size_t group : {5, 2}) ExpectSameBits(TrainAll(*OnDevice(plan, options), clients, *base, group), one);
}

bool IsZero(const Came& came) {
  for (const auto& [name, values] : came.parts)
    for (const float value : values)
      if (value != 0) return false;
  return true;
}

TEST(GpuPrecisionTest, SixteenBits_AreTheHostsForAnyLanes) {
  for (const char* precision : {"bfloat16", "float16"}) {
    SCOPED_TRACE(precision);
    ExpectAnyLanes(With(precision, "none", 1), 5e-3f);
  }
  ExpectAnyLanes(With("float16", "static", 1024), 5e-3f);
}

// Two good steps double the scale, up to where gradients are infinite; then it is halved.
TEST(GpuPrecisionTest, DynamicScale_GrowsAndShrinksForEachLane) {
  ExpectAnyLanes(With("float16", "dynamic", 65536, 1), 5e-3f);
  ExpectAnyLanes(With("float16", "dynamic", 16777216, 2), 5e-3f);
}

// Infinite in every step: a lane that never takes one sends nothing, and others are as they were without it.
TEST(GpuPrecisionTest, StepsWhoseGradientsAreInfinite_ChangeNothingOfThatLaneAlone) {
  const auto plan = LocalPlan(With("float16", "dynamic", 16777216, 1000));
  const auto base = PatternModel(*plan);
  // So few steps that the scale never comes down to what float16 holds, beside some who take many.
  const auto clients = ClientsOf(*plan, {10, 200});
  const std::vector<Came> both = TrainAll(*OnDevice(plan, {}), clients, *base, 2);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_TRUE(IsZero(both[0]));
  EXPECT_FALSE(IsZero(both[1]));
  ExpectSameBits(TrainAll(*OnDevice(plan, {}), clients, *base, 1), both);
}

// The vector of gradients has gaps, which are no numbers that anybody computed.
TEST(GpuPrecisionTest, NormOfAllGradients_IsTheHosts) {
  Scenario scenario = LocalScenario();
  scenario.client.optimizer.clip_norm = 0.1;
  ExpectAnyLanes(scenario, 2e-5f);
}

TEST(GpuPrecisionTest, Tf32_IsAnotherModel_AndTheSameForAnyLanes) {
  const Scenario scenario = LocalScenario();
  ExpectAnyLanes(scenario, 5e-3f, {.allow_tf32 = true});
  const auto plan = LocalPlan(scenario);
  const auto base = PatternModel(*plan);
  const auto clients = ClientsOf(*plan, {40});
  const std::vector<Came> rounded = TrainAll(*OnDevice(plan, {.allow_tf32 = true}), clients, *base, 1);
  EXPECT_NE(rounded[0].parts, TrainAll(*OnDevice(plan, {}), clients, *base, 1)[0].parts);
}

}  // namespace
}  // namespace rivulet
