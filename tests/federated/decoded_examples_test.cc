#include "federated/plan/decoded_examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "engine/data/example.h"
#include "federated/plan/example_source.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::DigitExample;
using testing::DigitRecords;
using ::testing::HasSubstr;
using testing::MemoryDataset;

constexpr int64_t kDigitRowBytes = 784 + sizeof(int64_t);  // as they are kept

std::shared_ptr<const ExampleDecoder> DigitDecoder() {
  const FeatureSpec features[] = {{"image", "x", FeatureSpec::Encoding::kUint8, Shape{28, 28}, 1.0 / 255, 0},
                                  {"label", "y", FeatureSpec::Encoding::kInt64, Shape{}, 1, 10}};
  auto decoder = ExampleDecoder::Create(features);
  EXPECT_OK(decoder);
  return *decoder;
}

// Memory for a batch, and what a program would see of it.
struct FedBatch {
  explicit FedBatch(int64_t rows) {
    for (const FeedSpec& feed : DigitDecoder()->FeedSpecs(rows)) {
      own.emplace_back(feed.spec.dtype, feed.spec.shape);
      feeds.push_back(own.back().view());
    }
  }
  // Every byte, as a program would read it.
  std::string Seen() const {
    std::string bytes;
    for (const TensorView& feed : feeds) bytes.append(reinterpret_cast<const char*>(feed.data), feed.bytes());
    return bytes;
  }
  bool CopiedImages() const { return feeds[0].data == own[0].data(); }
  bool CopiedLabels() const { return feeds[1].data == own[1].data(); }
  std::vector<Tensor> own;
  std::vector<TensorView> feeds;
};

std::string FedRows(const DecodedExamples& examples, std::vector<uint32_t> records) {
  FedBatch batch(std::ssize(records));
  EXPECT_OK(examples.Decode(records, batch.feeds));
  return batch.Seen();
}

TEST(DecodedExamplesTest, SecondTime_ReadsNothingAndFeedsTheSameBytes) {
  const auto data = std::make_shared<MemoryDataset>(DigitRecords(100));
  const DecodedExamples plain(data, DigitDecoder());
  const auto budget = std::make_shared<RowBudget>(1'000'000);
  const DecodedExamples kept(data, DigitDecoder(), budget);
  const std::vector<uint32_t> client = {7, 93, 0, 41}, reversed = {41, 0, 93, 7}, others = {41, 42, 43, 0};
  const std::string first = FedRows(kept, client);
  EXPECT_EQ(first, FedRows(plain, client));
  EXPECT_EQ(budget->left(), 1'000'000 - 4 * kDigitRowBytes);
  data->reads = 0;
  EXPECT_EQ(FedRows(kept, client), first);
  const std::string turned = FedRows(kept, reversed);
  EXPECT_EQ(data->reads, 0);
  EXPECT_EQ(turned, FedRows(plain, reversed));
  data->reads = 0;
  const std::string mixed = FedRows(kept, others);
  EXPECT_EQ(data->reads, 2);
  EXPECT_EQ(mixed, FedRows(plain, others));
}

TEST(DecodedExamplesTest, RecordTwiceInABatch_IsKeptOnce) {
  const auto data = std::make_shared<MemoryDataset>(DigitRecords(10));
  const auto budget = std::make_shared<RowBudget>(1'000'000);
  const DecodedExamples kept(data, DigitDecoder(), budget);
  EXPECT_EQ(FedRows(kept, {3, 3, 4, 3}), FedRows(DecodedExamples(data, DigitDecoder()), {3, 3, 4, 3}));
  EXPECT_EQ(budget->left(), 1'000'000 - 2 * kDigitRowBytes);
}

TEST(DecodedExamplesTest, SpentBudget_KeepsWhatCameFirstAndDecodesTheRest) {
  const auto data = std::make_shared<MemoryDataset>(DigitRecords(100));
  const DecodedExamples plain(data, DigitDecoder());
  std::vector<uint32_t> all(100);
  std::iota(all.begin(), all.end(), 0u);
  const std::string wanted = FedRows(plain, all);
  for (const int64_t rows : {0, 1, 37, 99, 100, 1000}) {
    const auto budget = std::make_shared<RowBudget>(rows * kDigitRowBytes + kDigitRowBytes / 2);
    const DecodedExamples kept(data, DigitDecoder(), budget);
    for (uint32_t i = 0; i < 100; ++i) FedRows(kept, {i});
    data->reads = 0;
    EXPECT_EQ(FedRows(kept, all), wanted);
    EXPECT_EQ(data->reads, 100 - std::min<int64_t>(rows, 100)) << rows;
    EXPECT_GE(budget->left(), 0);
  }
}

// The clients' examples and the test set live off one budget, which comes back with them.
TEST(DecodedExamplesTest, SetsShareABudget_AndGiveItBack) {
  const auto budget = std::make_shared<RowBudget>(5 * kDigitRowBytes);
  const auto one = std::make_shared<MemoryDataset>(DigitRecords(10)),
             other = std::make_shared<MemoryDataset>(DigitRecords(10, 2));
  {
    const DecodedSets sets(DigitDecoder(), budget);
    EXPECT_EQ(sets.Of(one), sets.Of(one));
    FedRows(*sets.Of(one), {0, 1, 2});
    FedRows(*sets.Of(other), {0, 1, 2});
    EXPECT_EQ(budget->left(), 1 * kDigitRowBytes);
    FedRows(*sets.Of(other), {5});
    EXPECT_EQ(budget->left(), 0);
    one->reads = other->reads = 0;
    FedRows(*sets.Of(one), {2, 1, 0});
    EXPECT_EQ(one->reads, 0);
    FedRows(*sets.Of(other), {0, 5, 6});
    EXPECT_EQ(other->reads, 1);
  }
  EXPECT_EQ(budget->left(), 5 * kDigitRowBytes);
}

TEST(DecodedExamplesTest, ConsecutiveKeptRecords_AreFedWhereTheyLie) {
  const auto data = std::make_shared<MemoryDataset>(DigitRecords(64));
  const DecodedExamples plain(data, DigitDecoder()), kept(data, DigitDecoder(), std::make_shared<RowBudget>(1'000'000));
  for (const uint32_t first : {0u, 10u, 20u}) {
    FedBatch batch(10);
    ASSERT_OK(kept.Feed(first, 10, batch.feeds));
    EXPECT_TRUE(batch.CopiedLabels());  // they are decoded now
  }
  data->reads = 0;
  for (const uint32_t first : {0u, 8u, 10u, 16u, 20u}) {
    FedBatch batch(10), again(10);
    ASSERT_OK(kept.Feed(first, 10, batch.feeds));
    EXPECT_EQ(data->reads, 0);
    // Eight labels fill the 64 bytes to which a program's feeds are aligned; bytes are not kept as they are fed.
    EXPECT_EQ(batch.CopiedLabels(), first % 8 != 0) << first;
    EXPECT_TRUE(batch.CopiedImages());
    ASSERT_OK(plain.Feed(first, 10, again.feeds));
    EXPECT_TRUE(again.CopiedLabels());
    EXPECT_EQ(batch.Seen(), again.Seen());
    data->reads = 0;
  }
  FedBatch beyond(10);  // the first six of which are kept
  ASSERT_OK(kept.Feed(24, 10, beyond.feeds));
  EXPECT_EQ(data->reads, 4);
  EXPECT_TRUE(beyond.CopiedLabels());
  EXPECT_EQ(beyond.Seen(), FedRows(plain, {24, 25, 26, 27, 28, 29, 30, 31, 32, 33}));
}

TEST(DecodedExamplesTest, FloatsAndTexts_AreKeptAsTheyAreFed) {
  const FeatureSpec features[] = {{"values", "x", FeatureSpec::Encoding::kFloat, Shape{16}, 0.5, 0},
                                  {"tokens", "t", FeatureSpec::Encoding::kInt64, Shape{3}, 1, 90}};
  ASSERT_OK_AND_ASSIGN(const auto decoder, ExampleDecoder::Create(features));
  std::vector<std::string> records;
  for (int n = 0; n < 8; ++n) {
    std::vector<float> values(16);
    std::iota(values.begin(), values.end(), static_cast<float>(n) * 0.1f);
    records.push_back(
        ExampleBuilder().Floats("values", values).Int64s("tokens", std::vector<int64_t>{n, 80 - n, 7}).Serialize());
  }
  const auto data = std::make_shared<MemoryDataset>(std::move(records));
  const DecodedExamples plain(data, decoder), kept(data, decoder, std::make_shared<RowBudget>(1'000'000));
  const auto fed = [&](const DecodedExamples& examples, bool where_they_lie) {
    std::vector<Tensor> own;
    std::vector<TensorView> feeds;
    for (const FeedSpec& feed : decoder->FeedSpecs(8))
      feeds.push_back(own.emplace_back(feed.spec.dtype, feed.spec.shape).view());
    EXPECT_OK(examples.Feed(0, 8, feeds));
    EXPECT_EQ(feeds[0].data != own[0].data(), where_they_lie);
    EXPECT_EQ(feeds[1].data != own[1].data(), where_they_lie);
    return std::pair(std::vector<float>(feeds[0].flat<float>().begin(), feeds[0].flat<float>().end()),
                     std::vector<int64_t>(feeds[1].flat<int64_t>().begin(), feeds[1].flat<int64_t>().end()));
  };
  const auto wanted = fed(plain, false);
  EXPECT_EQ(wanted.first[17], (1.0f + 0.1f) * 0.5f);
  EXPECT_EQ(wanted.second[4], 79);
  EXPECT_EQ(fed(kept, false), wanted);
  EXPECT_EQ(fed(kept, true), wanted);
}

TEST(DecodedExamplesTest, RecordsOutOfTheirOrder_AreCopiedIntoIt) {
  const auto data = std::make_shared<MemoryDataset>(DigitRecords(8));
  const DecodedExamples kept(data, DigitDecoder(), std::make_shared<RowBudget>(1'000'000));
  FedRows(kept, {3, 2, 1, 0});
  FedBatch batch(4);
  ASSERT_OK(kept.Feed(0, 4, batch.feeds));
  EXPECT_TRUE(batch.CopiedLabels());
  EXPECT_EQ(batch.Seen(), FedRows(DecodedExamples(data, DigitDecoder()), {0, 1, 2, 3}));
}

TEST(DecodedExamplesTest, BadRecord_IsToldEachTimeAndTakesNoRoom) {
  std::vector<std::string> records = DigitRecords(4);
  records[2] = DigitExample(std::string(784, 'x'), 77);
  const auto data = std::make_shared<MemoryDataset>(records);
  const auto budget = std::make_shared<RowBudget>(1'000'000);
  const DecodedExamples kept(data, DigitDecoder(), budget);
  for (int again = 0; again < 3; ++again) {
    FedBatch batch(4);
    const uint32_t all[] = {0, 1, 2, 3};
    EXPECT_THAT(kept.Decode(all, batch.feeds),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("memory.tfrecord: record 2 at byte")));
    EXPECT_THAT(kept.Feed(0, 4, batch.feeds), StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_EQ(budget->left(), 1'000'000);
}

TEST(DecodedExamplesTest, RecordBeyondTheEnd_IsRefused) {
  const DecodedExamples kept(std::make_shared<MemoryDataset>(DigitRecords(4)), DigitDecoder(),
                             std::make_shared<RowBudget>(1'000'000));
  FedBatch batch(2);
  const uint32_t records[] = {3, 4};
  EXPECT_THAT(kept.Decode(records, batch.feeds), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("example 4 of 4")));
  EXPECT_THAT(kept.Feed(3, 2, batch.feeds), StatusIs(absl::StatusCode::kOutOfRange));
}

// Threads that decode overlapping records at once see whole rows, whoever kept them.
TEST(DecodedExamplesTest, ManyThreads_SeeTheSameBytes) {
  const auto data = std::make_shared<MemoryDataset>(DigitRecords(200));
  const DecodedExamples plain(data, DigitDecoder());
  for (const int64_t rows : {30, 150, 200}) {
    const auto budget = std::make_shared<RowBudget>(rows * kDigitRowBytes);
    {
      const DecodedExamples kept(data, DigitDecoder(), budget);
      std::vector<std::thread> threads;
      for (uint32_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          for (uint32_t round = 0; round < 40; ++round) {
            std::vector<uint32_t> records;
            for (uint32_t i = 0; i < 20; ++i) records.push_back((round * 5 + i * (t + 1)) % 200);
            EXPECT_EQ(FedRows(kept, records), FedRows(plain, records));
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_GE(budget->left(), 0);
      EXPECT_LT(budget->left(), budget->bytes());
    }
    EXPECT_EQ(budget->left(), budget->bytes());
  }
}

}  // namespace
}  // namespace rivulet
