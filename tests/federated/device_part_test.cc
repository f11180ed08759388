// Parts stored where only their owner can aggregate them: the mean has the same bits, and other rules refuse
// them.
#include "federated/aggregation/device_part.h"

#include <algorithm>
#include <limits>

#include "federated/aggregation/fixed_point.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomUpdates;
using testing::Spec;
using testing::StatusIs;
using testing::TestUpdate;

// As a device would, but by the host's own pass, and it counts how often it is asked.
class HostHeld : public DevicePart {
 public:
  explicit HostHeld(const std::vector<TestUpdate>& updates) : updates_(updates) {}
  int64_t elements() const override { return std::ssize(updates_[0].delta); }
  std::string_view codec() const override { return codec_name; }
  StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                     int sign, std::span<int64_t> sums, std::span<FoldState> states) const override {
    return FoldInto(updates, scales, value_bits, sign, sums, states);
  }
  StatusOr<std::vector<Folded>> Fold(std::span<const int32_t> updates, std::span<const double> scales, int value_bits,
                                     int sign, std::span<int32_t> sums, std::span<FoldState> states) const override {
    return FoldInto(updates, scales, value_bits, sign, sums, states);
  }
  mutable std::vector<size_t> asked;  // of how many updates each time
  Status fails;
  std::string codec_name = "f32";

 private:
  template <typename Sum>
  StatusOr<std::vector<Folded>> FoldInto(std::span<const int32_t> updates, std::span<const double> scales,
                                         int value_bits, int sign, std::span<Sum> sums,
                                         std::span<FoldState> states) const {
    RIVULET_RETURN_IF_ERROR(fails);
    asked.push_back(updates.size());
    std::vector<Folded> folded;
    for (size_t i = 0; i < updates.size(); ++i) {
      const std::vector<float>& values = updates_[static_cast<size_t>(updates[i])].delta;
      const FloatRun run{values.data(), nullptr, std::ssize(values)};
      if (sign < 0) {
        SubtractFromSums(run, run.count, scales[i], sums);
        folded.push_back({run.count, 0});
        continue;
      }
      const int64_t taken = AddToSums(run, scales[i], value_bits, sums, states[i]);
      if (taken < run.count) SubtractFromSums(run, taken, scales[i], sums);
      folded.push_back({taken, taken < run.count ? values[static_cast<size_t>(taken)] : 0});
    }
    return folded;
  }
  const std::vector<TestUpdate>& updates_;
};

struct Held {
  explicit Held(std::vector<TestUpdate> all) : updates(std::move(all)), held(updates) {
    for (size_t i = 0; i < updates.size(); ++i) {
      updates[i].parts = {{.name = "delta", .device_part = &held, .number = static_cast<int32_t>(i)}};
      views.push_back({updates[i].task, 0, updates[i].parts, updates[i].scalars});
      weights.push_back(updates[i].weights());
    }
  }
  std::vector<TestUpdate> updates;
  HostHeld held;
  std::vector<UpdateView> views;
  std::vector<Weights> weights;
};

TEST(DevicePartTest, Together_TheyComeToTheBitsOfEachByItself) {
  for (const int sum_bits : {64, 32}) {
    AggregationSpec spec = Spec(1000);
    spec.parts[0].sum_bits = sum_bits;
    std::vector<TestUpdate> updates = RandomUpdates(5, 1000);
    const auto alone = Make(spec);
    for (TestUpdate& update : updates) ASSERT_OK(alone->Fold(update.view(), update.weights()));
    const Held held(updates);
    const auto together = Make(spec);
    for (const auto& taken : together->TakeTogether(held.views, held.weights)) ASSERT_OK(taken);
    EXPECT_THAT(held.held.asked, ElementsAre(5)) << "once for all";
    EXPECT_EQ(Bytes(*together), Bytes(*alone));
    const auto one = Make(spec);
    for (size_t i = 0; i < held.views.size(); ++i) ASSERT_OK(one->Take(held.views[i], held.weights[i]));
    EXPECT_EQ(Bytes(*one), Bytes(*alone));
  }
}

TEST(DevicePartTest, BadValue_RefusesItsUpdateAlone) {
  std::vector<TestUpdate> updates = RandomUpdates(3, 100);
  updates[1].delta[42] = std::numeric_limits<float>::quiet_NaN();
  const Held held(updates);
  AggregationSpec spec = Spec(100);
  const auto together = Make(spec), others = Make(spec);
  const auto taken = together->TakeTogether(held.views, held.weights);
  EXPECT_OK(taken[0]);
  EXPECT_THAT(taken[1], StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'task-001' has NaN at element 42")));
  EXPECT_OK(taken[2]);
  for (const size_t i : {0, 2}) ASSERT_OK(others->Fold(updates[i].view(), updates[i].weights()));
  EXPECT_EQ(Bytes(*together), Bytes(*others));
}

// A norm beyond the bound is known when the part has been added, and it is taken away again.
TEST(DevicePartTest, NormBeyondTheBound_LeavesNothingBehind) {
  AggregationSpec spec = Spec(100);
  spec.most_norm = 1e-3;
  const Held held(RandomUpdates(2, 100));
  const auto aggregation = Make(spec);
  for (const auto& taken : aggregation->TakeTogether(held.views, held.weights)) {
    EXPECT_THAT(taken, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("privacy.clip")));
  }
  for (const Partial& partial : aggregation->Save()) {
    EXPECT_TRUE(std::ranges::all_of(partial.parts[0].sums, [](int64_t sum) { return sum == 0; }));
  }
}

// Where norms are bounded too all are folded at once, and those that are beyond it taken out of the sum.
TEST(DevicePartTest, NormOfOneBeyondTheBound_RefusesItsUpdateAlone) {
  AggregationSpec spec = Spec(100);
  std::vector<TestUpdate> updates = RandomUpdates(3, 100);
  for (const size_t i : {0, 2}) {
    for (float& value : updates[i].delta) value *= 1e-3f;
  }
  spec.most_norm = 0.05;
  const Held held(updates);
  const auto together = Make(spec), others = Make(spec);
  const auto taken = together->TakeTogether(held.views, held.weights);
  EXPECT_THAT(held.held.asked, ElementsAre(3, 1)) << "all, and the one that goes again";
  EXPECT_OK(taken[0]);
  EXPECT_THAT(taken[1], StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("privacy.clip")));
  EXPECT_OK(taken[2]);
  for (const size_t i : {0, 2}) ASSERT_OK(others->Fold(updates[i].view(), updates[i].weights()));
  EXPECT_EQ(Bytes(*together), Bytes(*others));
}

// Values that have not gone through the part's codec would give other bits than what every other client sends.
TEST(DevicePartTest, AnotherCodecThanThePlans_IsRefused) {
  AggregationSpec spec = Spec(100);
  spec.parts[0].codec = "bf16";
  Held held(RandomUpdates(1, 100));
  EXPECT_THAT(
      Make(spec)->Take(held.views[0], held.weights[0]),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not encoded; the plan's codec of it is 'bf16'")));
  held.held.codec_name = "bf16";
  EXPECT_OK(Make(spec)->Take(held.views[0], held.weights[0]));
}

TEST(DevicePartTest, WhoeverHoldsThemFails_AllAreRefusedAndNothingIsAdded) {
  Held held(RandomUpdates(2, 100));
  held.held.fails = Internal("the device is gone");
  AggregationSpec spec = Spec(100);
  const auto aggregation = Make(spec);
  for (const auto& taken : aggregation->TakeTogether(held.views, held.weights)) {
    EXPECT_THAT(taken, StatusIs(absl::StatusCode::kInternal, HasSubstr("the device is gone")));
  }
  EXPECT_EQ(Bytes(*aggregation), "");
}

TEST(DevicePartTest, WhoReadsEveryValue_RefusesThem) {
  const Held held(RandomUpdates(1, 100));
  AggregationSpec spec = Spec(100);
  EXPECT_THAT(Make(spec)->Check(held.views[0], held.weights[0]),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is on a device")));
  spec.rule = "trimmed_mean";
  EXPECT_THAT(Make(spec)->Take(held.views[0], held.weights[0]),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the rule 'trimmed_mean' reads every value")));
}

TEST(DevicePartTest, PartOfAnotherSize_IsRefused) {
  const Held held(RandomUpdates(1, 99));
  AggregationSpec spec = Spec(100);
  EXPECT_THAT(Make(spec)->Take(held.views[0], held.weights[0]),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("99 values")));
}

}  // namespace
}  // namespace rivulet
