#include "setup/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/base/sha256.h"
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
void ExpectCovers(const Shares& shares, size_t n) {
  EXPECT_EQ(shares.examples(), static_cast<int64_t>(n));
  std::vector<uint32_t> all;
  for (int64_t i = 0; i < shares.size(); ++i) {
    const auto mine = shares.ExamplesOf(i);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), n);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
  EXPECT_EQ(all.back(), n - 1);
}

std::set<uint32_t> LabelsOf(std::span<const uint32_t> examples) {
  std::set<uint32_t> labels;
  for (const uint32_t example : examples) labels.insert(example % 10);
  return labels;
}

std::vector<std::string> NamesOf(const Shares& shares) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < shares.size(); ++i) names.push_back(shares.NameAt(i));
  return names;
}

// Of names and indices, in their order.
std::string DigestOf(const Shares& shares) {
  Sha256 hash;
  for (int64_t i = 0; i < shares.size(); ++i) {
    hash.Update(shares.NameAt(i)).Update(":");
    for (const uint32_t example : shares.ExamplesOf(i)) hash.Update(fmt::format("{},", example));
  }
  return std::move(hash).Finish().Hex().substr(0, 16);
}

TEST(PartitionTest, Iid_DealsEvenlyAndCoversEverything) {
  const auto shares = Partition(Digits(103), Config("iid", 10), "label", 1);
  ASSERT_OK(shares);
  ASSERT_EQ(shares->size(), 10);
  EXPECT_EQ(shares->NameAt(0), "client-00000");
  EXPECT_EQ(shares->NameAt(9), "client-00009");
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(shares->ExamplesOf(i).size(), i < 3 ? 11u : 10u);
  ExpectCovers(*shares, 103);
  EXPECT_GT(LabelsOf(shares->ExamplesOf(0)).size(), 3u);
}

// Who holds what is part of what a run's models are a function of. The labels of 500 examples come unevenly often.
TEST(PartitionTest, SharesAreThoseOfEarlierVersions) {
  const std::pair<const char*, const char*> expected[] = {
      {"iid", "3b1ae12db811d5e5"}, {"shards", "c9ff1a8c2ee8b11c"}, {"dirichlet", "d6c80993375a32c8"}};
  for (const auto& [kind, digest] : expected) {
    const auto shares = Partition(Digits(503), Config(kind, 10), "label", 7);
    ASSERT_OK(shares);
    EXPECT_EQ(DigestOf(*shares), digest) << kind;
    EXPECT_NE(DigestOf(*Partition(Digits(503), Config(kind, 10), "label", 8)), digest) << kind;
  }
}

TEST(PartitionTest, Shards_GiveEachClientFewLabels) {
  const auto shares = Partition(Digits(2000), Config("shards", 50), "label", 1);
  ASSERT_OK(shares);
  ExpectCovers(*shares, 2000);
  size_t two = 0;
  for (int64_t i = 0; i < shares->size(); ++i) {
    const auto share = shares->ExamplesOf(i);
    EXPECT_EQ(share.size(), 40u);
    EXPECT_LE(LabelsOf(share).size(), 2u);  // 200 examples a label are 10 whole shards
    two += LabelsOf(share).size() == 2;
  }
  EXPECT_GT(two, 25u);
}

TEST(PartitionTest, Dirichlet_SmallAlphaConcentratesAndLargeAlphaMixes) {
  PartitionConfig config = Config("dirichlet", 20);
  double largest_share[2];
  for (const int large : {0, 1}) {
    config.settings["alpha"] = large ? 1000.0 : 0.01;
    const auto shares = Partition(Digits(2000), config, "label", 3);
    ASSERT_OK(shares);
    ExpectCovers(*shares, 2000);
    double sum = 0;
    for (int64_t i = 0; i < shares->size(); ++i) {
      const auto share = shares->ExamplesOf(i);
      EXPECT_EQ(share.size(), 100u);
      std::array<int, 10> count{};
      for (const uint32_t example : share) ++count[example % 10];
      sum += *std::max_element(count.begin(), count.end()) / 100.0;
    }
    largest_share[large] = sum / 20;
  }
  EXPECT_GT(largest_share[0], 0.75);
  EXPECT_LT(largest_share[1], 0.25);
}

TEST(PartitionTest, Dirichlet_TinyAlpha_StillFillsEveryClient) {
  PartitionConfig config = Config("dirichlet", 7);
  config.settings["alpha"] = 1e-6;
  const auto shares = Partition(Digits(700), config, "label", 3);
  ASSERT_OK(shares);
  ExpectCovers(*shares, 700);
}

TEST(PartitionTest, ByKey_OneClientPerValueInByteOrder) {
  PartitionConfig config = Config("by_key", 0);
  const auto shares = Partition(Digits(9, {"zoe", "Ann", "bob"}), config, "label", 1);
  ASSERT_OK(shares);
  EXPECT_THAT(NamesOf(*shares), ElementsAre("Ann", "bob", "zoe"));
  EXPECT_THAT(shares->ExamplesOf(0), ElementsAre(1u, 4u, 7u));
  EXPECT_THAT(shares->ExamplesOf(*shares->Find("zoe")), ElementsAre(0u, 3u, 6u));
  EXPECT_EQ(shares->Find("ann"), std::nullopt);
  EXPECT_EQ(shares->population()->size(), 3);
}

TEST(PartitionTest, ByKey_FewerClientsThanKeys_TakesTheFirst) {
  const auto shares = Partition(Digits(9, {"zoe", "Ann", "bob"}), Config("by_key", 2), "label", 1);
  ASSERT_OK(shares);
  EXPECT_THAT(NamesOf(*shares), ElementsAre("Ann", "bob"));
  EXPECT_THAT(shares->ExamplesOf(1), ElementsAre(2u, 5u, 8u));
}

TEST(PartitionTest, ByKey_IntegerValues_AreWrittenInDecimal) {
  PartitionConfig config = Config("by_key", 0);
  config.settings["key"] = std::string("label");
  const auto shares = Partition(Digits(20), config, "label", 1);
  ASSERT_OK(shares);
  ASSERT_EQ(shares->size(), 10);
  EXPECT_EQ(shares->NameAt(9), "9");
}

TEST(PartitionTest, ByKey_UnsafeValues_BecomeSafeFileNames) {
  const auto shares =
      Partition(Digits(6, {"../x", "a/b%", "\xff!", "Zoë", "a\nb", "c\\d"}), Config("by_key", 0), "label", 1);
  ASSERT_OK(shares);
  EXPECT_THAT(NamesOf(*shares), ElementsAre("%2E.%2Fx", "%FF!", "Zoë", "a%0Ab", "a%2Fb%25", "c%5Cd"));
  EXPECT_THAT(shares->ExamplesOf(1), ElementsAre(2u));
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
  config.settings["shards_per_client"] = int64_t{1'000'000};
  EXPECT_THAT(Message(Partition(Digits(9), config, "label", 1).status()), HasSubstr("need more than the 9 examples"));
  config.settings["shards_per_client"] = int64_t{0};
  EXPECT_THAT(Message(Partition(Digits(9), config, "label", 1).status()),
              HasSubstr("data.partition: shards_per_client must be at least 1 and at most 1000000, not 0"));
}

TEST(PartitionTest, AlphaNotPositive_IsRefused) {
  PartitionConfig config = Config("dirichlet", 5);
  for (const double alpha : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    config.settings["alpha"] = alpha;
    EXPECT_THAT(Message(Partition(Digits(9), config, "label", 1).status()),
                HasSubstr("data.partition: alpha must be "));
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

// Beyond 100,000, byte order of names is not that of numbers.
TEST(PartitionTest, ManyClients_AreFoundByTheirNames) {
  const auto shares = Partition(Digits(100'020), Config("iid", 100'010), "label", 1);
  ASSERT_OK(shares);
  EXPECT_EQ(shares->NameAt(100'009), "client-100009");
  EXPECT_EQ(shares->Find("client-100009"), 100'009);
  EXPECT_EQ(shares->Find("client-00009"), 9);
  EXPECT_EQ(shares->Find("client-100010"), std::nullopt);
  EXPECT_EQ(shares->Find("client-9"), std::nullopt);
  EXPECT_EQ(shares->population()->size(), 100'010);
  EXPECT_TRUE(shares->population()->Find("client-100009").has_value());
}

TEST(SharesTest, NamesOutOfOrder_AreRefused) {
  EXPECT_THAT(Shares::OfNamed({"b", "a"}, {1, 2}, {0, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a' comes after 'b'")));
  EXPECT_THAT(Shares::OfNamed({"a", "a"}, {1, 2}, {0, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a' is listed twice")));
  EXPECT_THAT(Shares::OfNamed({"a"}, {1, 2}, {0, 1}), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace rivulet
