// Checks on a real GPU that otherwise run on the emulated back end. Without a GPU each is skipped, with the
// reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/training/device/gpu_trainer.h"
#include "client/training/pass_programs.h"
#include "tests/client/training/device/sent_updates.h"
#include "tests/client/training/device/trained_clients.h"
#include "tests/client/training/local_plan.h"
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

StatusOr<std::shared_ptr<GpuDevice>> FirstGpu() {
  RIVULET_ASSIGN_OR_RETURN(const RivuletGpuApi* const backend, CudaBackend());
  return GpuDevice::Open(*backend, 0);
}

class OnDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = FirstGpu();
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

// What happens to updates on their way: the kernels of all codecs, of noise and of the fold.
class OnDeviceUpdatesTest : public testing::SentUpdatesTest {
 protected:
  void SetUp() override {
    auto device = FirstGpu();
    if (!device.ok()) GTEST_SKIP() << Message(device.status());
    device_ = *std::move(device);
  }
  std::shared_ptr<GpuDevice> Open() const override { return device_; }

 private:
  std::shared_ptr<GpuDevice> device_;
};

TEST_F(OnDeviceUpdatesTest, EveryCodec_FoldsToTheHostsBits) {
  for (const char* codec : {"f32", "f16", "bf16", "int4", "int8", "qsgd2", "qsgd4", "qsgd8", "elias1", "elias7",
                            "elias127", "random_k", "top_k", "sign", "eden1", "eden2", "eden3", "eden4"}) {
    EXPECT_THAT(ExpectTheHosts(Encoded(codec)).sentences, ::testing::Each(""));
  }
}

// More than one whole block of a rotation, and more values than one block of threads has.
TEST_F(OnDeviceUpdatesTest, LargerModels_FoldToTheHostsBits) {
  for (const char* codec : {"int8", "random_k", "top_k", "sign", "eden3"}) {
    Scenario scenario = Encoded(codec);
    scenario.model.preset = "mlp";
    ExpectTheHosts(scenario);
  }
}

TEST_F(OnDeviceUpdatesTest, SeededNoise_IsTheHosts) {
  Scenario scenario = Encoded("int8");
  scenario.server.weights = "uniform";
  scenario.privacy = {.clip = 1000, .noise = 1e-5, .noise_source = "seeded"};
  ExpectTheHosts(scenario);
}

TEST_F(OnDeviceUpdatesTest, ValuesBeyondTheBound_AreTakenOutAgain) {
  Scenario scenario = Encoded("int8");
  scenario.server.value_bits = -5;
  EXPECT_THAT(ExpectTheHosts(scenario).sentences, ::testing::Contains(::testing::HasSubstr("server.value_bits")));
}

}  // namespace
}  // namespace rivulet
