// Partitioners of a data set, compared with their definitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/data/example.h"
#include "setup/partition.h"
#include "tests/testing/memory_dataset.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using testing::DigitExample;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemoryDataset;

// `n` examples with labels 0 .. labels - 1 in turn.
MemoryDataset InTurn(int n, int labels = 10) {
  std::vector<std::string> records;
  for (int i = 0; i < n; ++i)
    records.push_back(i < labels ? DigitExample("", i) : records[static_cast<size_t>(i % labels)]);
  return MemoryDataset(std::move(records));
}

PartitionConfig Kind(std::string kind, int64_t clients, std::string sizes = "even") {
  PartitionConfig config;
  config.kind = std::move(kind);
  config.clients = clients;
  if (sizes != "even") config.settings["sizes"] = std::move(sizes);
  return config;
}

std::vector<int64_t> SizesOf(const Shares& shares) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < shares.size(); ++i) sizes.push_back(static_cast<int64_t>(shares.ExamplesOf(i).size()));
  return sizes;
}

// How many examples of each label every client has.
std::vector<std::vector<int64_t>> CountsOf(const Shares& shares, uint32_t labels) {
  std::vector<std::vector<int64_t>> counts;
  for (int64_t i = 0; i < shares.size(); ++i) {
    counts.emplace_back(labels);
    for (const uint32_t example : shares.ExamplesOf(i)) ++counts.back()[example % labels];
  }
  return counts;
}

void ExpectEachExampleOnce(const Shares& shares, uint32_t n) {
  std::vector<uint32_t> all;
  for (int64_t i = 0; i < shares.size(); ++i) {
    EXPECT_FALSE(shares.ExamplesOf(i).empty()) << shares.NameAt(i);
    all.insert(all.end(), shares.ExamplesOf(i).begin(), shares.ExamplesOf(i).end());
  }
  std::sort(all.begin(), all.end());
  std::vector<uint32_t> expected(n);
  std::iota(expected.begin(), expected.end(), 0u);
  EXPECT_EQ(all, expected);
}

std::string ErrorOfPartition(const MemoryDataset& data, const PartitionConfig& config) {
  return testing::ErrorOf(Partition(data, config, "label", 1));
}

TEST(SizesTest, GivenLaws_AreTheirFormulas) {
  // One each, and 1,000 more by 1 + 2 + 3 + 4 = 10, 1 + 4 + 9 + 16 = 30, 1 + 1/2 + 1/3 + 1/4 = 25/12.
  const std::pair<const char*, std::vector<int64_t>> cases[] = {
      {"even", {251, 251, 251, 251}},      {"linear", {101, 201, 301, 401}},    {"square", {34, 135, 301, 534}},
      {"power_law", {481, 241, 161, 121}}, {"exponential", {33, 88, 238, 645}},  // 1, e, e², e³ of 31.19
  };
  for (const auto& [sizes, expected] : cases) {
    const auto shares = Partition(InTurn(1004), Kind("iid", 4, sizes), "label", 1);
    ASSERT_OK(shares);
    EXPECT_EQ(SizesOf(*shares), expected) << sizes;
    ExpectEachExampleOnce(*shares, 1004);
  }
}

TEST(SizesTest, Skew_ScalesTheLogarithm) {
  PartitionConfig config = Kind("iid", 4, "power_law");
  config.settings["skew"] = 2.0;  // 1 + 1/4 + 1/9 + 1/16 = 205/144
  EXPECT_THAT(SizesOf(*Partition(InTurn(1004), config, "label", 1)), ElementsAre(703, 177, 79, 45));
  config.settings["sizes"] = std::string("exponential");
  config.settings["skew"] = 1e6;  // beyond the range of double: all but one have their one
  EXPECT_THAT(SizesOf(*Partition(InTurn(1004), config, "label", 1)), ElementsAre(1, 1, 1, 1001));
}

// Of 2,000 clients with 1,000 examples each: ln(size) of a lognormal law has deviation `skew`, the relative deviation
// of a Dirichlet's is sqrt((1/alpha) (1 - 1/n) / (1 + 1/(n alpha))), nearly 1/sqrt(alpha).
TEST(SizesTest, DrawnLaws_HaveTheirMoments) {
  constexpr int kClients = 2000;
  const MemoryDataset data = InTurn(kClients * 1000, 1);
  PartitionConfig config = Kind("iid", kClients, "lognormal");
  config.settings["skew"] = 0.5;
  const auto lognormal = Partition(data, config, "label", 3);
  ASSERT_OK(lognormal);
  double sum = 0, squares = 0;
  for (const int64_t size : SizesOf(*lognormal)) {
    const double log = std::log(static_cast<double>(size));
    sum += log;
    squares += log * log;
  }
  EXPECT_NEAR(std::sqrt(squares / kClients - sum / kClients * sum / kClients), 0.5, 0.03);
  config.settings["sizes"] = std::string("dirichlet");
  config.settings["size_alpha"] = 4.0;
  const auto dirichlet = Partition(data, config, "label", 3);
  ASSERT_OK(dirichlet);
  squares = 0;
  for (const int64_t size : SizesOf(*dirichlet)) squares += std::pow(static_cast<double>(size) / 1000 - 1, 2);
  EXPECT_NEAR(std::sqrt(squares / kClients), 0.5, 0.03);
  EXPECT_NE(SizesOf(*dirichlet), SizesOf(*Partition(data, config, "label", 4)));
}

TEST(SizesTest, OtherKinds_KeepTheirOwnLaw) {
  PartitionConfig config = Kind("dirichlet", 4, "linear");  // inner Dirichlet
  const auto inner = Partition(InTurn(1004), config, "label", 1);
  ASSERT_OK(inner);
  EXPECT_THAT(SizesOf(*inner), ElementsAre(101, 201, 301, 401));
  ExpectEachExampleOnce(*inner, 1004);
  config.settings["sizes"] = std::string("liner");
  EXPECT_THAT(ErrorOfPartition(InTurn(9), config),
              HasSubstr("data.partition.sizes is 'liner'; it must be one of even, linear"));
  config.settings["sizes"] = std::string("lognormal");
  config.settings["skew"] = 0.0;
  EXPECT_EQ(ErrorOfPartition(InTurn(9), config), "data.partition: skew must be above 0, not 0");
  config.settings["sizes"] = std::string("dirichlet");
  config.settings["size_alpha"] = double{NAN};
  EXPECT_EQ(ErrorOfPartition(InTurn(9), config), "data.partition: size_alpha must be a finite number, not nan");
}

// Each label's shares are Dirichlet(alpha): mean 1/n, and E[p²] = (alpha + 1) / (n (n alpha + 1)).
TEST(LabelDirichletTest, SharesOfALabel_HaveTheirMoments) {
  PartitionConfig config = Kind("label_dirichlet", 20);
  for (const double alpha : {0.3, 5.0}) {
    config.settings["alpha"] = alpha;
    double squares = 0;
    constexpr int kSeeds = 40;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const auto shares = Partition(InTurn(20000, 10), config, "label", seed);
      ASSERT_OK(shares);
      for (const auto& counts : CountsOf(*shares, 10))
        for (const int64_t count : counts)
          squares += std::pow(static_cast<double>(count) / 2000, 2) / (kSeeds * 10 * 20);
      if (seed == 0) ExpectEachExampleOnce(*shares, 20000);
    }
    const double expected = (alpha + 1) / (20 * (20 * alpha + 1));
    EXPECT_NEAR(squares / expected, 1, 0.06) << alpha;
  }
}

TEST(LabelDirichletTest, MinExamples_AreDrawnForOrRefused) {
  PartitionConfig config = Kind("label_dirichlet", 10);
  config.settings["alpha"] = 0.2;
  config.settings["min_examples"] = int64_t{20};
  const auto shares = Partition(InTurn(2000), config, "label", 1);
  ASSERT_OK(shares);
  EXPECT_THAT(SizesOf(*shares), Each(::testing::Ge(20)));
  config.settings["alpha"] = 0.001;
  EXPECT_THAT(ErrorOfPartition(InTurn(2000), config),
              ::testing::ContainsRegex(
                  "in 100 draws the smallest client got [0-9]+ examples at most, but data.partition.min_ex"));
  config.settings["min_examples"] = int64_t{201};
  EXPECT_THAT(ErrorOfPartition(InTurn(2000), config), HasSubstr("10 clients share 2000 examples; give 1 to 200"));
  config.settings["alpha"] = 0.0;
  EXPECT_THAT(ErrorOfPartition(InTurn(2000), config), HasSubstr("data.partition: alpha must be above 0, not 0"));
}

TEST(PathologicalTest, EachClient_HasItsNumberOfLabels) {
  PartitionConfig config = Kind("pathological", 25);
  config.settings["labels_per_client"] = int64_t{3};
  const auto shares = Partition(InTurn(3000), config, "label", 1);
  ASSERT_OK(shares);
  ExpectEachExampleOnce(*shares, 3000);
  const auto counts = CountsOf(*shares, 10);
  std::vector<int64_t> owners(10);
  for (size_t client = 0; client < counts.size(); ++client) {
    EXPECT_EQ(std::ranges::count_if(counts[client], [](int64_t count) { return count > 0; }), 3);
    EXPECT_GT(counts[client][client % 10], 0);
    for (size_t label = 0; label < 10; ++label) owners[label] += counts[client][label] > 0;
  }
  for (const auto& client : counts) {  // a label's examples are shared evenly by its owners
    for (size_t label = 0; label < 10; ++label) {
      if (client[label] > 0) {
        EXPECT_LE(std::abs(client[label] - 300 / owners[label]), 1);
      }
    }
  }
  config.settings["labels_per_client"] = int64_t{10};
  EXPECT_THAT(SizesOf(*Partition(InTurn(3000), config, "label", 1)), Each(120));
}

TEST(PathologicalTest, FewerClientsThanLabels_LeaveNoLabelOut) {
  PartitionConfig config = Kind("pathological", 3);
  config.settings["labels_per_client"] = int64_t{4};
  const auto shares = Partition(InTurn(100), config, "label", 1);
  ASSERT_OK(shares);
  ExpectEachExampleOnce(*shares, 100);
  for (const int label : {0, 3, 6, 9}) EXPECT_GT(CountsOf(*shares, 10)[0][static_cast<size_t>(label)], 0);
}

TEST(PathologicalTest, WhatCannotBe_IsRefused) {
  PartitionConfig config = Kind("pathological", 3);
  config.settings["labels_per_client"] = int64_t{11};
  EXPECT_THAT(ErrorOfPartition(InTurn(100), config), HasSubstr("is 11, but the data have 10 labels; give 1 to 10"));
  config.settings["labels_per_client"] = int64_t{1};
  EXPECT_THAT(ErrorOfPartition(InTurn(100), config), HasSubstr("no client has label number 3; raise"));
  config.clients = 20;
  config.settings["labels_per_client"] = int64_t{10};
  EXPECT_THAT(ErrorOfPartition(InTurn(100), config),
              HasSubstr("20 clients have label number 0, of which there are 10"));
}

class DistributionTest : public testing::FolderTest {
 protected:
  PartitionConfig Matrix(int64_t clients, const std::string& csv) {
    PartitionConfig config = Kind("distribution", clients);
    config.settings["distribution"] = Write("m.csv", csv);
    return config;
  }
};

TEST_F(DistributionTest, Columns_AreDividedInProportion) {
  const auto shares = Partition(InTurn(300, 3), Matrix(3, "1,0,2\n1, 0.5,1\n2,0.5,1\n"), "label", 1);
  ASSERT_OK(shares);
  ExpectEachExampleOnce(*shares, 300);
  EXPECT_THAT(CountsOf(*shares, 3),
              ElementsAre(ElementsAre(25, 0, 50), ElementsAre(25, 50, 25), ElementsAre(50, 50, 25)));
}

TEST_F(DistributionTest, BadMatrices_AreRefusedByLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"1,1,1\n", "m.csv has 1 rows, but data.partition.clients is 2; give a row for each client"},
      {"1,1,1\n1,1,1\n1,1,1\n", "m.csv has more rows, but data.partition.clients is 2"},
      {"1,1,1\n1,1\n", "m.csv: line 2 has 2 cells, but the data have 3 labels"},
      {"1,1,x\n1,1,1\n", "m.csv: line 1: 'x' is no share; give numbers from 0"},
      {"1,1,-1\n1,1,1\n", "m.csv: line 1: '-1' is no share"},
      {"1,1,nan\n1,1,1\n", "m.csv: line 1: 'nan' is no share"},
      {"1,1,inf\n1,1,1\n", "m.csv: line 1: 'inf' is no share"},
      {"1,1, \n1,1,1\n", "m.csv: line 1: ' ' is no share"},
      {"1,0,1\n1,0,1\n", "m.csv: column 2 gives no client any of its label's 10 examples"},
      {"1,1,1\n0,0,0\n", "m.csv: row 2 gives its client no example"},
  };
  for (const auto& [csv, message] : cases)
    EXPECT_THAT(ErrorOfPartition(InTurn(30, 3), Matrix(2, csv)), HasSubstr(message)) << csv;
  EXPECT_THAT(ErrorOfPartition(InTurn(30, 3), Kind("distribution", 2)),
              HasSubstr("data.partition.distribution names no"));
}

TEST(ContinuousTest, Strictness_GoesFromShuffledToSorted) {
  std::vector<std::string> records;
  for (int i = 0; i < 1000; ++i) {
    const float value = static_cast<float>((i * 37) % 1000);
    records.push_back(ExampleBuilder().Floats("age", std::span(&value, 1)).Int64("label", i % 2).Serialize());
  }
  const MemoryDataset data(std::move(records));
  PartitionConfig config = Kind("continuous", 10);
  config.settings["property"] = std::string("age");
  const auto means = [&](double strictness) {
    config.settings["strictness"] = strictness;
    const auto shares = Partition(data, config, "label", 1);
    EXPECT_OK(shares);
    ExpectEachExampleOnce(*shares, 1000);
    std::vector<double> means;
    for (int64_t i = 0; i < 10; ++i) {
      double sum = 0;
      for (const uint32_t example : shares->ExamplesOf(i)) sum += (example * 37) % 1000;
      means.push_back(sum / static_cast<double>(shares->ExamplesOf(i).size()));
    }
    return means;
  };
  EXPECT_THAT(means(1), ElementsAre(49.5, 149.5, 249.5, 349.5, 449.5, 549.5, 649.5, 749.5, 849.5, 949.5));
  EXPECT_THAT(means(0), Each(::testing::DoubleNear(499.5, 120)));  // four deviations of a mean of 100
  const std::vector<double> half = means(0.5);
  EXPECT_LT(half[0], 350);
  EXPECT_GT(half[0], 100);
  config.settings["sizes"] = std::string("linear");
  EXPECT_EQ(SizesOf(*Partition(data, config, "label", 1)).front(), 1 + 990 / 55);
}

TEST(ContinuousTest, WhatCannotBeSortedBy_IsRefused) {
  PartitionConfig config = Kind("continuous", 2);
  EXPECT_THAT(ErrorOfPartition(InTurn(10), config), HasSubstr("data.partition.property names no feature"));
  config.settings["property"] = std::string("age");
  EXPECT_THAT(ErrorOfPartition(InTurn(10), config), HasSubstr("memory.tfrecord: record 0 at byte 0"));
  config.settings["property"] = std::string("label");
  EXPECT_EQ(ErrorOfPartition(InTurn(10), config), "no error");  // whole numbers too
  EXPECT_THAT(ErrorOfPartition(InTurn(10, 1), config), HasSubstr("every example has the same value of 'label'"));
  config.settings["strictness"] = 1.5;
  EXPECT_THAT(ErrorOfPartition(InTurn(10), config),
              HasSubstr("data.partition: strictness must be at least 0 and at most 1, not 1.5"));
  const float nan = NAN;
  config = Kind("continuous", 1);
  config.settings["property"] = std::string("age");
  const MemoryDataset data({ExampleBuilder().Floats("age", std::span(&nan, 1)).Serialize()});
  EXPECT_THAT(ErrorOfPartition(data, config), HasSubstr("the value of 'age' is nan"));
}

// Names of no client are held, and no vector of any: a million clients cost their ends, a cursor and their indices.
TEST(PartitionersTest, AMillionClients_AreDivided) {
  const MemoryDataset data = InTurn(2'000'000, 2);
  PartitionConfig config = Kind("pathological", 1'000'000);
  const auto pathological = Partition(data, config, "label", 1);
  ASSERT_OK(pathological);
  EXPECT_EQ(pathological->examples(), 2'000'000);
  EXPECT_EQ(pathological->ExamplesOf(999'999).size(), 2u);
  const auto skewed = Partition(data, Kind("iid", 1'000'000, "lognormal"), "label", 1);
  ASSERT_OK(skewed);
  EXPECT_EQ(skewed->examples(), 2'000'000);
}

}  // namespace
}  // namespace rivulet
