#include "setup/partition_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::DigitExample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemoryDataset;

// Labels 3, 3, 3, 7, 7, 9.
MemoryDataset Six() {
  std::vector<std::string> records;
  for (const int label : {3, 3, 3, 7, 7, 9}) records.push_back(DigitExample("", label));
  return MemoryDataset(std::move(records));
}

TEST(PartitionSummaryTest, CountsByLabelAndClient) {
  const Shares shares = Shares::OfNumbered({3, 4, 6}, {0, 1, 2, 3, 4, 5});
  const auto summary = Summarise(Six(), shares, "label", 10);
  ASSERT_OK(summary);
  EXPECT_EQ(summary->clients, 3);
  EXPECT_EQ(summary->examples, 6);
  EXPECT_THAT((std::vector{summary->smallest, summary->median, summary->largest}), ElementsAre(1, 2, 3));
  EXPECT_THAT(summary->labels, ElementsAre(3, 7, 9));
  EXPECT_THAT(summary->totals, ElementsAre(3, 2, 1));
  EXPECT_THAT(summary->counts, ElementsAre(ElementsAre(3, 0, 0), ElementsAre(0, 1, 1), ElementsAre(0, 0, 1)));
  EXPECT_DOUBLE_EQ(summary->labels_per_client, 4.0 / 3);
  // All: 1/2, 1/3, 1/6. Distances: 1/2, 2/3, and (1/2 + 1/6 + 1/3) / 2.
  EXPECT_DOUBLE_EQ(summary->distance, (1.0 / 2 + 2.0 / 3 + 1.0 / 2) / 3);
}

TEST(PartitionSummaryTest, MoreClientsThanColumns_StandTogether) {
  const Shares shares = Shares::OfNumbered({3, 4, 6}, {0, 1, 2, 3, 4, 5});
  const auto summary = Summarise(Six(), shares, "label", 2);
  ASSERT_OK(summary);
  EXPECT_THAT(summary->starts, ElementsAre(0, 2, 3));
  EXPECT_THAT(summary->counts, ElementsAre(ElementsAre(3, 0), ElementsAre(1, 1), ElementsAre(0, 1)));
}

TEST(PartitionSummaryTest, LabelsThatCannotBeCounted_AreRefused) {
  const Shares shares = Shares::OfNumbered({6}, {0, 1, 2, 3, 4, 5});
  EXPECT_THAT(testing::ErrorOf(Summarise(Six(), shares, "class", 2)), HasSubstr("memory.tfrecord: record 0"));
  std::vector<std::string> records;
  for (int label = 0; label < 1001; ++label) records.push_back(DigitExample("", label));
  EXPECT_THAT(testing::ErrorOf(Summarise(MemoryDataset(std::move(records)), shares, "label", 2)),
              HasSubstr("'label' has 1001 different values; a picture of more than 1000"));
}

}  // namespace
}  // namespace rivulet
