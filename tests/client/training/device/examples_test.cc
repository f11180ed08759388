// Examples cached on a device: uploads, cache hits, and evictions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/training/device/gpu_examples.h"
#include "engine/program/program.h"
#include "tests/client/training/local_plan.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::DigitExample;
using testing::DigitRecords;
using ::testing::ElementsAre;
using testing::LocalPlan;
using testing::MemoryDataset;

constexpr size_t kImageBytes = 784 * sizeof(float), kLabelBytes = sizeof(int64_t);

class GpuExamplesTest : public ::testing::Test {
 protected:
  ~GpuExamplesTest() override { gpu::SetEmulatedSettings({}); }

  void SetUp() override {
    EnterWorkerThread();
    auto decoder = ExampleDecoder::Create(LocalPlan()->features());
    ASSERT_OK(decoder);
    decoder_ = *decoder;
    Use(DigitRecords(100));
    ASSERT_OK_AND_ASSIGN(device_, GpuDevice::Open(gpu::EmulatedBackend(), 0));
    ASSERT_OK_AND_ASSIGN(stream_, device_->NewStream());
  }

  void Use(std::vector<std::string> records) {
    set_ = std::make_shared<const DecodedExamples>(std::make_shared<MemoryDataset>(std::move(records)), decoder_);
  }

  std::unique_ptr<GpuExamples> Examples(int64_t most_rows) const {
    return std::make_unique<GpuExamples>(decoder_, std::vector<size_t>{kImageBytes, kLabelBytes}, device_,
                                         static_cast<size_t>(most_rows) * (kImageBytes + kLabelBytes));
  }

  // Of a client that has `records`: all of them are brought, and lie as they are decoded.
  void ExpectThere(GpuExamples& examples, const std::vector<std::vector<uint32_t>>& clients) {
    std::vector<DatasetExamples> sources;
    std::vector<GpuShare> shares;
    sources.reserve(clients.size());
    for (const std::vector<uint32_t>& records : clients) {
      sources.emplace_back(set_, std::span(records));
      GpuShare& share = shares.emplace_back(GpuShare{.source = &sources.back()});
      for (uint32_t i = 0; i < records.size(); ++i) share.examples.push_back(i);
    }
    ASSERT_OK(examples.Reserve(*stream_, shares));
    for (GpuShare& share : shares) ASSERT_OK(examples.Bring(*stream_, share));
    for (size_t client = 0; client < clients.size(); ++client) {
      for (size_t i = 0; i < clients[client].size(); ++i) {
        std::vector<float> there(784), expected(784);
        int64_t label = -1, expected_label = -2;
        const uint32_t row = shares[client].rows[i];
        ASSERT_OK(stream_->ToHost(there.data(), examples.table(0) + row * kImageBytes, kImageBytes));
        ASSERT_OK(stream_->ToHost(&label, examples.table(1) + row * kLabelBytes, kLabelBytes));
        ASSERT_OK(stream_->Wait());
        const TensorView views[] = {
            {reinterpret_cast<std::byte*>(expected.data()), DType::kFloat32, Shape({1, 28, 28, 1})},
            {reinterpret_cast<std::byte*>(&expected_label), DType::kInt64, Shape({1})}};
        ASSERT_OK(set_->Decode({&clients[client][i], 1}, views));
        EXPECT_EQ(there, expected) << client << " " << i;
        EXPECT_EQ(label, expected_label);
      }
    }
  }

  // How many examples went to the device.
  int64_t Brought(GpuExamples& examples, const std::vector<std::vector<uint32_t>>& clients) {
    const int64_t before = gpu::CountEmulated().bytes_to_device;
    ExpectThere(examples, clients);
    return (gpu::CountEmulated().bytes_to_device - before) / static_cast<int64_t>(kImageBytes + kLabelBytes);
  }

  std::shared_ptr<const ExampleDecoder> decoder_;
  std::shared_ptr<const DecodedExamples> set_;
  std::shared_ptr<GpuDevice> device_;
  std::unique_ptr<GpuStream> stream_;
};

TEST_F(GpuExamplesTest, RecordsThatAreThere_AreNotBroughtAgain) {
  const auto examples = Examples(100);
  EXPECT_EQ(Brought(*examples, {{3, 1, 4}, {15, 9}}), 5);
  EXPECT_EQ(Brought(*examples, {{15, 9}, {3, 1, 4}}), 0);
  EXPECT_EQ(Brought(*examples, {{4, 5}}), 1);
  EXPECT_EQ(Brought(*examples, {{5, 15}, {6}}), 1);
}

TEST_F(GpuExamplesTest, RecordThatClientsShareOrHaveTwice_IsBroughtOnce) {
  const auto examples = Examples(100);
  EXPECT_EQ(Brought(*examples, {{7, 8, 7, 7}, {8, 9}}), 3);
  EXPECT_EQ(Brought(*examples, {{9, 9}, {7}}), 0);
}

TEST_F(GpuExamplesTest, RowsUsedLongestAgo_MakeWay) {
  const auto examples = Examples(4);
  EXPECT_EQ(Brought(*examples, {{0, 1}}), 2);
  EXPECT_EQ(Brought(*examples, {{2, 3}}), 2);
  EXPECT_EQ(Brought(*examples, {{0, 1}}), 0);
  EXPECT_EQ(Brought(*examples, {{4}}), 1);  // instead of 2
  EXPECT_EQ(Brought(*examples, {{3, 0, 1, 4}}), 0);
  EXPECT_EQ(Brought(*examples, {{2}}), 1);  // instead of 3
  EXPECT_EQ(Brought(*examples, {{0, 1, 4, 2}}), 0);
}

TEST_F(GpuExamplesTest, MoreThanAreKept_StillHaveTheirPlaces) {
  const auto examples = Examples(2);
  EXPECT_EQ(Brought(*examples, {{0, 1, 2}, {3, 4}}), 5);
  EXPECT_EQ(Brought(*examples, {{0, 1, 2, 3, 4}, {5, 6}}), 2);  // the tables move, and what is there with them
  EXPECT_EQ(Brought(*examples, {{6, 5, 4, 3}}), 0);
}

TEST_F(GpuExamplesTest, SetThatIsGone_IsForgotten) {
  const auto examples = Examples(100);
  EXPECT_EQ(Brought(*examples, {{0, 1}}), 2);
  auto other = set_;
  Use(DigitRecords(100, 5));
  EXPECT_EQ(Brought(*examples, {{0, 1}}), 2);  // the same records of another
  std::swap(set_, other);
  EXPECT_EQ(Brought(*examples, {{0, 1}}), 0);
  for (uint32_t seed = 10; seed < 200; ++seed) {
    Use(DigitRecords(100, seed));
    EXPECT_EQ(Brought(*examples, {{0, 1}}), 2);
  }
  EXPECT_LE(examples->bytes(), 300 * (kImageBytes + kLabelBytes));
}

TEST_F(GpuExamplesTest, RecordThatCannotBeDecoded_HarmsNoOther) {
  std::vector<std::string> records = DigitRecords(20);
  records[7] = DigitExample(std::string(784, '\0'), 12);
  Use(records);
  const auto examples = Examples(100);
  const std::vector<uint32_t> bad = {5, 6, 7}, good = {6, 8};
  const DatasetExamples of_bad(set_, std::span(bad)), of_good(set_, std::span(good));
  std::vector<GpuShare> shares = {{.source = &of_bad, .examples = {0, 1, 2}}, {.source = &of_good, .examples = {0, 1}}};
  ASSERT_OK(examples->Reserve(*stream_, shares));
  EXPECT_THAT(examples->Bring(*stream_, shares[0]), StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK(examples->Bring(*stream_, shares[1]));
  ASSERT_OK(stream_->Wait());
  ExpectThere(*examples, {{6, 8, 5}});
}

TEST_F(GpuExamplesTest, DroppedExamples_AreBroughtAgain) {
  const auto examples = Examples(100);
  EXPECT_EQ(Brought(*examples, {{0, 1, 2}}), 3);
  examples->Drop();
  EXPECT_EQ(examples->bytes(), 0u);
  EXPECT_EQ(Brought(*examples, {{2, 1}}), 2);
}

TEST_F(GpuExamplesTest, MoreThanTheDeviceHolds_AreRefusedAndFewerStillBrought) {
  gpu::SetEmulatedSettings({.memory_bytes = 100'000});
  ASSERT_OK_AND_ASSIGN(device_, GpuDevice::Open(gpu::EmulatedBackend(), 0));
  ASSERT_OK_AND_ASSIGN(stream_, device_->NewStream());
  const auto examples = Examples(1000);
  std::vector<uint32_t> all(60);
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  const DatasetExamples source(set_, std::span(all));
  GpuShare share{.source = &source, .examples = all};
  EXPECT_THAT(examples->Reserve(*stream_, {&share, 1}), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(Brought(*examples, {{0, 1}}), 2);
}

}  // namespace
}  // namespace rivulet
