// Evaluation on a device against the host's, over the emulated back end.
#include "setup/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "setup/gpu_evaluator.h"
#include "tests/client/training/local_plan.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::DigitRecords;
using ::testing::HasSubstr;
using testing::LocalPlan;
using testing::MemoryDataset;
using testing::PatternModel;
using testing::StatusIs;

class GpuEvaluatorTest : public ::testing::Test {
 protected:
  ~GpuEvaluatorTest() override { gpu::SetEmulatedSettings({}); }
  static std::shared_ptr<GpuDevice> Device() {
    auto device = GpuDevice::Open(gpu::EmulatedBackend(), 0);
    EXPECT_OK(device);
    return *device;
  }
};

TEST_F(GpuEvaluatorTest, AnyBatches_MeasureAsOnTheHost) {
  const auto plan = LocalPlan();
  const auto test = std::make_shared<MemoryDataset>(DigitRecords(53));
  const auto model = PatternModel(*plan);
  for (const int64_t batch_size : {1, 7, 16, 53, 100}) {
    SCOPED_TRACE(batch_size);
    ASSERT_OK_AND_ASSIGN(const auto host, CentralEvaluator::Create(plan, test, {.batch_size = batch_size}));
    ASSERT_OK_AND_ASSIGN(const auto device, GpuEvaluator::Create(plan, test, batch_size, Device()));
    ASSERT_OK_AND_ASSIGN(const auto expected, host->Evaluate(*model));
    ASSERT_OK_AND_ASSIGN(const auto measured, device->Evaluate(*model));
    EXPECT_EQ(measured.at("test/accuracy"), expected.at("test/accuracy"));
    EXPECT_NEAR(measured.at("test/loss").value, expected.at("test/loss").value, 1e-5);
    ASSERT_OK_AND_ASSIGN(const auto again, device->Evaluate(*model));
    EXPECT_EQ(again, measured);
  }
}

TEST_F(GpuEvaluatorTest, TestSetThatDoesNotFit_IsToldByName) {
  gpu::SetEmulatedSettings({.memory_bytes = 200'000});
  EXPECT_THAT(GpuEvaluator::Create(LocalPlan(), std::make_shared<MemoryDataset>(DigitRecords(100)), 10, Device()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the test set")));
}

TEST_F(GpuEvaluatorTest, EmptyTestSet_IsRefused) {
  EXPECT_THAT(
      GpuEvaluator::Create(LocalPlan(), std::make_shared<MemoryDataset>(std::vector<std::string>()), 10, Device()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no examples")));
}

}  // namespace
}  // namespace rivulet
