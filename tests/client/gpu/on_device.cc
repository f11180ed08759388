// On a real GPU: what the emulated back end shows everywhere. Each is skipped by name, with the reason, where there is
// none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/gpu_trainer.h"
#include "client/pass_programs.h"
#include "tests/client/gpu/trained_clients.h"
#include "tests/client/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::Came;
using testing::Client;
using testing::ClientsOf;
using testing::ExpectNear;
using testing::ExpectSameBits;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::PatternModel;
using testing::TrainAll;

class OnDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto backend = CudaBackend();
    if (!backend.ok()) GTEST_SKIP() << Message(backend.status());
    auto device = GpuDevice::Open(**backend, 0);
    if (!device.ok()) GTEST_SKIP() << Message(device.status());
    device_ = *std::move(device);
  }

  std::unique_ptr<Trainer> OnDevice(const std::shared_ptr<const Plan>& plan) const {
    auto trainer = NewGpuTrainer(std::make_shared<PassPrograms>(plan), {device_});
    EXPECT_OK(trainer);
    return *std::move(trainer);
  }

  // As on the host within `tolerance`; the same bits for any number of lanes, and when it is done again.
  void ExpectAnyLanes(const Scenario& scenario, const std::vector<int>& sizes, float tolerance) const {
    const auto plan = LocalPlan(scenario);
    const auto base = PatternModel(*plan);
    const std::vector<Client> clients = ClientsOf(*plan, sizes);
    ASSERT_OK_AND_ASSIGN(const auto host, Trainer::Create(std::make_shared<PassPrograms>(plan)));
    const auto device = OnDevice(plan);
    const std::vector<Came> one = TrainAll(*device, clients, *base, 1);
    ExpectNear(one, TrainAll(*host, clients, *base, 1), tolerance);
    for (const size_t group : {size_t{2}, sizes.size(), sizes.size()}) {
      ExpectSameBits(TrainAll(*device, clients, *base, group), one);
    }
    ExpectSameBits(TrainAll(*OnDevice(plan), clients, *base, sizes.size()), one);
  }

  std::shared_ptr<GpuDevice> device_;
};

TEST_F(OnDeviceTest, LogisticRegression_IsTheHostsTrainingForAnyLanes) {
  ExpectAnyLanes(LocalScenario(), {12, 7, 1, 45, 10, 22, 3}, 2e-5f);
}

TEST_F(OnDeviceTest, Cnn_IsTheHostsTrainingForAnyLanes) {
  Scenario scenario = LocalScenario();
  scenario.model.preset = "mnist_cnn";
  scenario.client.epochs = 1;
  scenario.client.optimizer.learning_rate = 0.05;
  ExpectAnyLanes(scenario, {50, 23, 50, 10, 7, 50}, 1e-3f);
}

// With dropout: the draws are the host's.
TEST_F(OnDeviceTest, CnnWithDropout_DrawsAsTheHost) {
  Scenario scenario = LocalScenario();
  scenario.model.preset = "emnist_cnn";
  scenario.client.epochs = 1;
  scenario.client.optimizer.learning_rate = 0.05;
  ExpectAnyLanes(scenario, {20, 23, 7}, 1e-3f);
}

}  // namespace
}  // namespace rivulet
