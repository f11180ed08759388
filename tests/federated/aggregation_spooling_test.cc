// Rules that need all updates, represented by the simplest: the median of each coordinate.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <numeric>

#include "federated/aggregation/updates_rule.h"
#include "tests/federated/aggregation_updates.h"
#include "tests/testing/sanitized.h"

namespace rivulet {
namespace {

using testing::BytesOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomUpdates;
using testing::Read;
using testing::Spec;
using testing::StatusIs;
using testing::TestUpdate;

// The lower of the two in the middle.
class TestMedian : public UpdatesRule {
 public:
  void Reduce(const Columns& columns, std::span<float> out) const override {
    const auto& updates = columns.updates;
    std::vector<float> column(updates.size());
    const auto middle = column.begin() + static_cast<std::ptrdiff_t>((updates.size() - 1) / 2);
    for (size_t i = 0; i < out.size(); ++i) {
      for (size_t u = 0; u < updates.size(); ++u) column[u] = updates[u][i];
      std::nth_element(column.begin(), middle, column.end());
      out[i] = *middle;
    }
  }
};

std::unique_ptr<const UpdatesRule> CreateTestMedian(const Settings&) { return std::make_unique<TestMedian>(); }
RIVULET_UPDATES_RULE("test_median", {}, CreateTestMedian);

// The heaviest update as it is: a rule that looks at weights.
class TestHeaviest : public UpdatesRule {
 public:
  void Reduce(const Columns& columns, std::span<float> out) const override {
    const std::span<const std::span<const float>> updates = columns.updates;
    const std::span<const int64_t> weights = columns.weights;
    const auto heaviest = std::max_element(weights.begin(), weights.end()) - weights.begin();
    std::copy(updates[static_cast<size_t>(heaviest)].begin(), updates[static_cast<size_t>(heaviest)].end(),
              out.begin());
  }
};

std::unique_ptr<const UpdatesRule> CreateTestHeaviest(const Settings&) { return std::make_unique<TestHeaviest>(); }
RIVULET_UPDATES_RULE("test_heaviest", {}, CreateTestHeaviest);

AggregationSpec SpoolingSpec(int64_t elements, int64_t updates = 10) {
  AggregationSpec spec = Spec(elements, updates);
  spec.rule = "test_median";
  return spec;
}

std::vector<float> MedianOf(const std::vector<TestUpdate>& updates) {
  std::vector<float> medians;
  for (size_t e = 0; e < updates[0].delta.size(); ++e) {
    std::vector<float> column;
    for (const TestUpdate& update : updates) column.push_back(update.delta[e]);
    std::sort(column.begin(), column.end());
    medians.push_back(column[(column.size() - 1) / 2]);
  }
  return medians;
}

TEST(SpoolingRule, Median_IsTheMiddleOfEachCoordinate) {
  auto aggregation = Make(SpoolingSpec(2));
  TestUpdate a{"a", {1, 100}, 5}, b{"b", {3, -2}, 50}, c{"c", {2, 7}, 500};
  for (TestUpdate* update : {&a, &b, &c}) {
    ASSERT_OK(aggregation->Check(update->view(), update->weights()));
    ASSERT_OK(aggregation->Fold(update->view(), update->weights()));
  }
  const auto again = aggregation->Take(b.view(), b.weights());
  ASSERT_OK(again);
  EXPECT_EQ(again->norm, 0) << "folded before";
  const auto input = std::move(*aggregation).Finish();
  ASSERT_OK(input);
  EXPECT_THAT(input->parts[0].mean, ElementsAre(2, 7));
  EXPECT_EQ(input->updates, 3);
}

TEST(SpoolingRule, NormAndCounts_AreThoseOfAMean) {
  TestUpdate update = RandomUpdates(1, 20'001)[0];
  update.delta[7] = 0;
  auto spooled = Make(SpoolingSpec(20'001)), summed = Make(Spec(20'001));
  const auto taken = spooled->Take(update.view(), update.weights());
  ASSERT_OK(taken);
  EXPECT_EQ(taken->norm, summed->Take(update.view(), update.weights())->norm);
  EXPECT_EQ(spooled->Save()[0].parts[0].nonzeros, 20'000);
}

TEST(SpoolingRule, AnySplitIntoPartials_GivesTheSame) {
  auto updates = RandomUpdates(9, 700, 1.0f);
  const AggregationSpec spec = SpoolingSpec(700);
  const std::vector<float> expected = MedianOf(updates);
  for (size_t cut = 1; cut < 9; ++cut) {
    auto left = Make(spec), right = Make(spec);
    for (size_t i = 9; i-- > 0;) {
      ASSERT_OK((i < cut ? left : right)->Fold(updates[i].view(), updates[i].weights()));
    }
    // The right one travels.
    const auto travelled = Read(spec, BytesOf(spec, right->Save()[0]));
    ASSERT_OK(travelled);
    ASSERT_OK(left->Merge(*travelled));
    EXPECT_THAT(left->Merge(*travelled), StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_EQ((std::move(*left).Finish())->parts[0].mean, expected) << cut;
  }
}

TEST(SpoolingRule, WeightsAndTasks_TravelWithTheirUpdates) {
  AggregationSpec spec = SpoolingSpec(300'000);  // beyond a block
  spec.rule = "test_heaviest";
  auto updates = RandomUpdates(3, 300'000);
  updates[1].weight = 65536, updates[0].weight = 3, updates[2].weight = 65535;
  auto gathered = Make(spec), whole = Make(spec);
  for (TestUpdate& update : updates) ASSERT_OK(gathered->Fold(update.view(), update.weights()));
  const Partial partial = gathered->Extract(0);
  const auto travelled = Read(spec, BytesOf(spec, partial));
  ASSERT_OK(travelled);
  EXPECT_EQ(BytesOf(spec, *travelled), BytesOf(spec, partial));
  ASSERT_OK(whole->Merge(*travelled));
  EXPECT_EQ((std::move(*whole).Finish())->parts[0].mean, updates[1].delta);
}

TEST(SpoolingRule, BadUpdate_LeavesNoTrace) {
  const AggregationSpec spec = SpoolingSpec(40'000);
  auto aggregation = Make(spec);
  auto updates = RandomUpdates(2, 40'000);
  ASSERT_OK(aggregation->Fold(updates[0].view(), updates[0].weights()));
  const std::string before = testing::Bytes(*aggregation);
  updates[1].delta[39'999] = std::nanf("");
  EXPECT_THAT(aggregation->Fold(updates[1].view(), updates[1].weights()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has NaN at element 39999 of its delta")));
  EXPECT_EQ(testing::Bytes(*aggregation), before);
  updates[1].delta[39'999] = 1;
  ASSERT_OK(aggregation->Fold(updates[1].view(), updates[1].weights()));
  EXPECT_EQ((std::move(*aggregation).Finish())->parts[0].mean, MedianOf(updates));
}

TEST(SpoolingRule, HostilePartials_AreRefused) {
  const AggregationSpec spec = SpoolingSpec(3);
  auto updates = RandomUpdates(2, 3);
  auto gathered = Make(spec);
  for (TestUpdate& update : updates) ASSERT_OK(gathered->Fold(update.view(), update.weights()));
  const auto error = [&](auto spoil) {
    Partial partial = gathered->Save()[0];
    spoil(partial.parts[0]);
    return std::string(Message(Make(spec)->Merge(partial)));
  };
  EXPECT_EQ(error([](auto&) {}), "");
  EXPECT_THAT(error([](auto& p) { p.spooled[1].weight = 65537; }), HasSubstr("'task-001' has the weight 65537"));
  EXPECT_THAT(error([](auto& p) { p.spooled[1].weight ^= 1; }), HasSubstr("2 updates of part 'delta', which weigh"));
  EXPECT_THAT(error([](auto& p) { p.spooled.pop_back(); }), HasSubstr("has 1 updates of part 'delta'"));
  EXPECT_THAT(error([](auto& p) { p.sums = SumArray<int64_t>(3); }), HasSubstr("2 updates of part 'delta'"));
  EXPECT_THAT(error([](auto& p) { p.spooled[0].offset += 1000; }), HasSubstr("missing on disk"));
  const std::string bytes = BytesOf(spec, gathered->Save()[0]);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    ASSERT_THAT(Read(spec, damaged), StatusIs(absl::StatusCode::kDataLoss)) << at;
    ASSERT_THAT(Read(spec, bytes.substr(0, at)), StatusIs(absl::StatusCode::kDataLoss)) << at;
  }
}

int64_t PeakAnonymousKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes;
  }
  return 0;
}

// 200 updates of 256 kB are 51 MB on disk; what a finish holds is a block of each.
TEST(SpoolingRule, ManyUpdates_StayOnDisk) {
  constexpr int64_t kElements = 65'536;
  const AggregationSpec spec = SpoolingSpec(kElements, 200);
  auto aggregation = Make(spec);
  TestUpdate update = RandomUpdates(1, kElements)[0];
  const std::vector<float> first = update.delta;
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak from here
  [[maybe_unused]] const int64_t before = PeakAnonymousKilobytes();
  for (int i = 0; i < 200; ++i) {
    update.task = fmt::format("t{}", i);
    std::rotate(update.delta.begin(), update.delta.begin() + 1, update.delta.end());
    ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
  }
  const auto input = std::move(*aggregation).Finish();
  ASSERT_OK(input);
  // A sanitizer keeps what is given back, and what it knows of all there was.
  if (!testing::kSanitized) {
    EXPECT_LT(PeakAnonymousKilobytes() - before, 20'000);
  }
  // Coordinate 0 has seen values 1 to 200.
  std::vector<float> seen(first.begin() + 1, first.begin() + 201);
  std::nth_element(seen.begin(), seen.begin() + 99, seen.end());
  EXPECT_EQ(input->parts[0].mean[0], seen[99]);
}

TEST(SpoolingRule, FullDisk_IsResourceExhaustedAndLeavesNoTrace) {
  const AggregationSpec spec = SpoolingSpec(100'000);
  auto aggregation = Make(spec);
  auto updates = RandomUpdates(2, 100'000);
  ASSERT_OK(aggregation->Fold(updates[0].view(), updates[0].weights()));
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit before = limit;
  limit.rlim_cur = 600'000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  const Status status = aggregation->Fold(updates[1].view(), updates[1].weights());
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("cannot keep an update on disk")));
  EXPECT_EQ((std::move(*aggregation).Finish())->parts[0].mean, updates[0].delta);
}

}  // namespace
}  // namespace rivulet
