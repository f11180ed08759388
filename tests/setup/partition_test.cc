#include "setup/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using testing::DigitExample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemoryDataset;

// `n` examples with labels 0, 1, … 9, 0, 1, … and the writers of `writers` in turn.
MemoryDataset Digits(int n, const std::vector<std::string>& writers = {}) {
  std::vector<std::string> records;
  for (int i = 0; i < n; ++i) {
    records.push_back(
        DigitExample("x", i % 10, writers.empty() ? "" : writers[static_cast<size_t>(i) % writers.size()]));
  }
  return MemoryDataset(std::move(records));
}

PartitionConfig Config(std::string kind, int64_t clients) {
  PartitionConfig config;
  config.kind = std::move(kind);
  config.clients = clients;
  return config;
}

// Every example of 0 .. n-1 is in exactly one share.
void ExpectCovers(const std::vector<ClientShare>& shares, size_t n) {
  std::vector<uint32_t> all;
  for (const ClientShare& share : shares) all.insert(all.end(), share.examples.begin(), share.examples.end());
  EXPECT_EQ(all.size(), n);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
  EXPECT_EQ(all.back(), n - 1);
}

std::set<uint32_t> LabelsOf(const ClientShare& share) {
  std::set<uint32_t> labels;
  for (const uint32_t example : share.examples) labels.insert(example % 10);
  return labels;
}

bool Same(const std::vector<ClientShare>& a, const std::vector<ClientShare>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ClientShare& x, const ClientShare& y) {
    return x.client_id == y.client_id && x.examples == y.examples;
  });
}

TEST(PartitionTest, Iid_DealsEvenlyAndCoversEverything) {
  const auto shares = Partition(Digits(103), Config("iid", 10), "label", 1);
  ASSERT_OK(shares);
  ASSERT_EQ(shares->size(), 10u);
  EXPECT_EQ(shares->front().client_id, "client-00000");
  EXPECT_EQ(shares->back().client_id, "client-00009");
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ((*shares)[i].examples.size(), i < 3 ? 11u : 10u);
  ExpectCovers(*shares, 103);
  EXPECT_GT(LabelsOf((*shares)[0]).size(), 3u);
}

TEST(PartitionTest, SameSeed_SameSharesAndAnotherSeed_Others) {
  for (const char* kind : {"iid", "shards", "dirichlet"}) {
    const auto first = Partition(Digits(500), Config(kind, 10), "label", 7);
    const auto again = Partition(Digits(500), Config(kind, 10), "label", 7);
    const auto other = Partition(Digits(500), Config(kind, 10), "label", 8);
    ASSERT_OK(first);
    ASSERT_OK(again);
    ASSERT_OK(other);
    EXPECT_TRUE(Same(*first, *again)) << kind;
    EXPECT_FALSE(Same(*first, *other)) << kind;
  }
}

TEST(PartitionTest, Shards_GiveEachClientFewLabels) {
  const auto shares = Partition(Digits(2000), Config("shards", 50), "label", 1);
  ASSERT_OK(shares);
  ExpectCovers(*shares, 2000);
  size_t two = 0;
  for (const ClientShare& share : *shares) {
    EXPECT_EQ(share.examples.size(), 40u);
    EXPECT_LE(LabelsOf(share).size(), 2u);  // 200 examples a label are 10 whole shards
    two += LabelsOf(share).size() == 2;
  }
  EXPECT_GT(two, 25u);
}

TEST(PartitionTest, Dirichlet_SmallAlphaConcentratesAndLargeAlphaMixes) {
  PartitionConfig config = Config("dirichlet", 20);
  double largest_share[2];
  for (const int large : {0, 1}) {
    config.alpha = large ? 1000.0 : 0.01;
    const auto shares = Partition(Digits(2000), config, "label", 3);
    ASSERT_OK(shares);
    ExpectCovers(*shares, 2000);
    double sum = 0;
    for (const ClientShare& share : *shares) {
      EXPECT_EQ(share.examples.size(), 100u);
      std::array<int, 10> count{};
      for (const uint32_t example : share.examples) ++count[example % 10];
      sum += *std::max_element(count.begin(), count.end()) / 100.0;
    }
    largest_share[large] = sum / 20;
  }
  EXPECT_GT(largest_share[0], 0.75);
  EXPECT_LT(largest_share[1], 0.25);
}

TEST(PartitionTest, Dirichlet_TinyAlpha_StillFillsEveryClient) {
  PartitionConfig config = Config("dirichlet", 7);
  config.alpha = 1e-6;
  const auto shares = Partition(Digits(700), config, "label", 3);
  ASSERT_OK(shares);
  ExpectCovers(*shares, 700);
}

TEST(PartitionTest, ByKey_OneClientPerValueInByteOrder) {
  PartitionConfig config = Config("by_key", 0);
  const auto shares = Partition(Digits(9, {"zoe", "Ann", "bob"}), config, "label", 1);
  ASSERT_OK(shares);
  ASSERT_EQ(shares->size(), 3u);
  EXPECT_EQ((*shares)[0].client_id, "Ann");
  EXPECT_EQ((*shares)[1].client_id, "bob");
  EXPECT_EQ((*shares)[2].client_id, "zoe");
  EXPECT_THAT((*shares)[0].examples, ElementsAre(1u, 4u, 7u));
}

TEST(PartitionTest, ByKey_FewerClientsThanKeys_TakesTheFirst) {
  const auto shares = Partition(Digits(9, {"zoe", "Ann", "bob"}), Config("by_key", 2), "label", 1);
  ASSERT_OK(shares);
  ASSERT_EQ(shares->size(), 2u);
  EXPECT_EQ((*shares)[1].client_id, "bob");
}

TEST(PartitionTest, ByKey_IntegerValues_AreWrittenInDecimal) {
  PartitionConfig config = Config("by_key", 0);
  config.key = "label";
  const auto shares = Partition(Digits(20), config, "label", 1);
  ASSERT_OK(shares);
  ASSERT_EQ(shares->size(), 10u);
  EXPECT_EQ((*shares)[9].client_id, "9");
}

TEST(PartitionTest, ByKey_UnsafeValues_BecomeSafeFileNames) {
  const auto shares =
      Partition(Digits(6, {"../x", "a/b%", "\xff!", "Zoë", "a\nb", "c\\d"}), Config("by_key", 0), "label", 1);
  ASSERT_OK(shares);
  std::vector<std::string> ids;
  for (const ClientShare& share : *shares) ids.push_back(share.client_id);
  EXPECT_THAT(ids, ElementsAre("%2E.%2Fx", "Zoë", "a%0Ab", "a%2Fb%25", "c%5Cd", "%FF!"));
}

TEST(PartitionTest, UnknownKind_NamesTheNearest) {
  const auto shares = Partition(Digits(9), Config("shard", 2), "label", 1);
  EXPECT_THAT(shares, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'shards'")));
}

TEST(PartitionTest, ZeroClients_IsRefused) {
  for (const char* kind : {"iid", "shards", "dirichlet"}) {
    const auto shares = Partition(Digits(9), Config(kind, 0), "label", 1);
    EXPECT_THAT(shares, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data.partition.clients is 0")));
  }
}

TEST(PartitionTest, FewerExamplesThanClients_IsRefused) {
  const auto shares = Partition(Digits(9), Config("iid", 10), "label", 1);
  EXPECT_THAT(shares, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("9 examples for 10 clients")));
}

TEST(PartitionTest, MoreShardsThanExamples_IsRefused) {
  PartitionConfig config = Config("shards", 5);
  config.shards_per_client = INT64_MAX;  // the product must not overflow either
  EXPECT_THAT(Message(Partition(Digits(9), config, "label", 1).status()), HasSubstr("need more than the 9 examples"));
  config.shards_per_client = 0;
  EXPECT_THAT(Message(Partition(Digits(9), config, "label", 1).status()), HasSubstr("shards_per_client is 0"));
}

TEST(PartitionTest, AlphaNotPositive_IsRefused) {
  PartitionConfig config = Config("dirichlet", 5);
  for (const double alpha : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    config.alpha = alpha;
    EXPECT_THAT(Message(Partition(Digits(9), config, "label", 1).status()), HasSubstr("data.partition.alpha"));
  }
}

TEST(PartitionTest, MoreClientsThanKeys_IsRefused) {
  const auto shares = Partition(Digits(9, {"a", "b"}), Config("by_key", 3), "label", 1);
  EXPECT_THAT(Message(shares.status()), HasSubstr("'writer' has only 2 values"));
}

TEST(PartitionTest, MissingFeature_NamesFileRecordAndFeature) {
  const auto by_key = Partition(Digits(9), Config("by_key", 0), "label", 1);
  EXPECT_THAT(by_key,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::AllOf(HasSubstr("memory.tfrecord: record 0 at byte 0"), HasSubstr("writer"))));
  const auto shards = Partition(Digits(40), Config("shards", 2), "digit", 1);
  EXPECT_THAT(Message(shards.status()), HasSubstr("digit"));
}

TEST(PartitionTest, KeyTooLong_IsRefusedByRecord) {
  const auto shares = Partition(Digits(2, {"a", std::string(129, 'x')}), Config("by_key", 0), "label", 1);
  EXPECT_THAT(Message(shares.status()), HasSubstr("record 1 at byte"));
  EXPECT_THAT(Message(shares.status()), HasSubstr("129 bytes"));
}

}  // namespace
}  // namespace rivulet
