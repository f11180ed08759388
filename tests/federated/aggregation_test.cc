#include "federated/aggregation/aggregation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "federated/aggregation/fixed_point.h"
#include "federated/aggregation/gathering.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using testing::FractionBits;
using ::testing::HasSubstr;
using testing::Make;
using testing::OnEveryTarget;
using testing::RandomUpdates;
using testing::Read;
using testing::Saved;
using testing::Spec;
using testing::StatusIs;
using testing::TestUpdate;

// The definition, one element at a time: an exact product, one rounding, an integer sum.
std::vector<float> ReferenceMean(const std::vector<TestUpdate>& updates, int fraction_bits) {
  std::vector<float> means;
  int64_t weights = 0;
  for (const TestUpdate& update : updates) weights += update.weight;
  for (size_t e = 0; e < updates[0].delta.size(); ++e) {
    __extension__ __int128 sum = 0;
    for (const TestUpdate& update : updates) {
      const double product = static_cast<double>(update.delta[e]) * static_cast<double>(update.weight);
      sum += static_cast<int64_t>(std::nearbyint(std::ldexp(product, fraction_bits)));
    }
    means.push_back(static_cast<float>(static_cast<double>(static_cast<int64_t>(sum)) /
                                       std::ldexp(static_cast<double>(weights), fraction_bits)));
  }
  return means;
}

// ---- Numbers a reader can check ------------------------------------------------------------------------------------

TEST(WeightedMean, TwoClientsFiveExamples) {
  auto aggregation = Make(Spec(3));
  TestUpdate two{"a", {1.0f, -0.5f, 0.0f}, 2};
  TestUpdate three{"b", {0.0f, 0.5f, -10.0f}, 3};
  ASSERT_OK(aggregation->Check(two.view(), two.weights()));
  ASSERT_OK(aggregation->Fold(two.view(), two.weights()));
  ASSERT_OK(aggregation->Check(three.view(), three.weights()));
  ASSERT_OK(aggregation->Fold(three.view(), three.weights()));
  const auto input = std::move(*aggregation).Finish();
  ASSERT_OK(input);
  EXPECT_THAT(input->parts[0].mean, ElementsAre(0.4f, 0.1f, -6.0f));  // (2·1)/5, (−1+1.5)/5, −30/5
  EXPECT_EQ(input->parts[0].name, "delta");
  EXPECT_EQ(input->parts[0].denominator, 5);
  EXPECT_EQ(input->updates, 2);
  EXPECT_EQ(input->parts[0].lost_fraction, 0.0);
}

TEST(WeightedMean, OneClient_IsItsDelta) {
  auto aggregation = Make(Spec(4));
  TestUpdate only{"a", {0.125f, -1024.0f, 1e-3f, 0.0f}, 600};
  ASSERT_OK(aggregation->Fold(only.view(), only.weights()));
  EXPECT_EQ((std::move(*aggregation).Finish())->parts[0].mean, only.delta);
}

TEST(FractionBits, AreWhatTheFormulaSays) {
  EXPECT_EQ(FractionBits(Spec(1, 10)), 62 - 10 - 20);  // 10 × 65,536 < 2^20
  EXPECT_EQ(FractionBits(Spec(1, 16)), 62 - 10 - 20);  // exactly 2^20
  EXPECT_EQ(FractionBits(Spec(1, 17)), 62 - 10 - 21);
  AggregationSpec spec = Spec(1, 1);
  spec.max_weight = 1;
  spec.parts[0].value_bits = 0;
  EXPECT_EQ(FractionBits(spec), 62);
}

TEST(FractionBits, EveryTermCounts) {
  struct Row {
    int sum_bits, value_bits, weight_fraction_bits, staleness_bits;
    int64_t updates, max_weight;
    int fraction_bits;
  };
  // By hand: sum_bits − 2 − value_bits − ceil(log2(updates × max_weight × 2^f)) − staleness_bits.
  for (const Row& row :
       {Row{64, 10, 0, 0, 10, 65536, 32}, Row{64, -30, 0, 0, 1, 1, 92}, Row{64, 0, 0, 0, 1, 1, 62},
        Row{64, 30, 0, 0, 16, 65536, 12}, Row{64, 10, 8, 0, 10, 65536, 24}, Row{64, 10, 12, 8, 1000, 65536, 6},
        Row{64, -3, 28, 0, 3, 1, 35}, Row{32, 0, 0, 0, 100, 1000, 13}, Row{32, -10, 4, 0, 100, 1000, 19},
        Row{32, -30, 0, 0, int64_t{1} << 31, (int64_t{1} << 29) - 1, 0}, Row{32, 10, 0, 0, 1, 1, 20},
        Row{32, 4, 0, 8, 64, 16, 8}}) {
    AggregationSpec spec = Spec(1, row.updates);
    spec.parts[0].sum_bits = row.sum_bits;
    spec.parts[0].value_bits = row.value_bits;
    spec.weight_fraction_bits = row.weight_fraction_bits;
    spec.staleness_bits = row.staleness_bits;
    spec.max_weight = row.max_weight;
    EXPECT_EQ(FractionBits(spec), row.fraction_bits);
    EXPECT_OK(ValidateSpec(spec));
  }
}

TEST(FractionBits, WholeWeightsInSumsOf64Bits_AreWhatTheyAlwaysWere) {
  Draws draws(StreamFor(11, "", Purpose::kSynthesize), 0);
  for (int i = 0; i < 100'000; ++i) {
    AggregationSpec spec = Spec(1, 1 + static_cast<int64_t>(draws.Below(int64_t{1} << (1 + draws.Below(31)))));
    spec.max_weight = 1 + static_cast<int64_t>(draws.Below(kMaxWeight));
    spec.parts[0].value_bits = static_cast<int>(draws.Below(31));
    const auto weights = static_cast<uint64_t>(spec.updates_per_version) * static_cast<uint64_t>(spec.max_weight);
    ASSERT_EQ(FractionBits(spec), 62 - spec.parts[0].value_bits - static_cast<int>(std::bit_width(weights - 1)));
  }
}

TEST(WeightedMean, FractionsOfWeights_WeighAsTheyShould) {
  AggregationSpec spec = Spec(2, 2);
  spec.weight_fraction_bits = 1;
  spec.max_weight = 2;
  auto aggregation = Make(spec);
  TestUpdate half{"a", {8.0f, -3.0f}, 1};  // 0.5
  TestUpdate more{"b", {0.0f, 1.0f}, 3};   // 1.5
  for (TestUpdate* update : {&half, &more}) {
    ASSERT_OK(aggregation->Check(update->view(), update->weights()));
    ASSERT_OK(aggregation->Fold(update->view(), update->weights()));
  }
  TestUpdate heavy{"c", {0.0f, 1.0f}, 5};
  EXPECT_THAT(aggregation->Check(heavy.view(), heavy.weights()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("weighs 2.5, more than server.max_weight = 2")));
  heavy.weight = 0;
  EXPECT_THAT(aggregation->Check(heavy.view(), heavy.weights()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("weighs 0; a weight is at least 0.5")));
  const auto input = std::move(*aggregation).Finish();
  ASSERT_OK(input);
  EXPECT_THAT(input->parts[0].mean, ElementsAre(2.0f, 0.0f));
}

TEST(WeightedMean, ValuesBelowTwoToTheMinusTwenty_KeepTheirBits) {
  AggregationSpec spec = Spec(3, 1);
  spec.max_weight = 1;
  spec.parts[0].value_bits = -20;
  OnEveryTarget([&] {
    auto aggregation = Make(spec);
    TestUpdate small{"a", {0x1.234568p-21f, -0x1.fffffep-40f, 0x1p-20f}, 1};
    ASSERT_OK(aggregation->Check(small.view(), small.weights()));
    ASSERT_OK(aggregation->Fold(small.view(), small.weights()));
    EXPECT_EQ((std::move(*aggregation).Finish())->parts[0].mean, small.delta);
  });
  TestUpdate large{"b", {0, 0, 0x1.000002p-20f}, 1};
  EXPECT_THAT(Make(spec)->Check(large.view(), large.weights()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at element 2 of its delta, beyond ±2^-20")));
}

TEST(WeightedMean, RoundsToNearestEven) {
  AggregationSpec spec = Spec(4, 1);
  spec.max_weight = 1;
  spec.parts[0].value_bits = 30;  // s = 32
  ASSERT_EQ(FractionBits(spec), 32);
  OnEveryTarget([&] {
    auto aggregation = Make(spec);
    // In units of 2^-32: 0.5, 1.5, 2.5 and −1.5.
    TestUpdate update{"a", {0x1p-33f, 0x3p-33f, 0x5p-33f, -0x3p-33f}, 1};
    ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
    EXPECT_THAT(Saved(*aggregation).parts[0].sums, ElementsAre(0, 2, 2, -2));
    EXPECT_EQ(Saved(*aggregation).parts[0].nonzeros, 4);
    EXPECT_EQ(Saved(*aggregation).parts[0].lost_nonzeros, 1);
    EXPECT_EQ((std::move(*aggregation).Finish())->parts[0].lost_fraction, 0.25);
  });
}

// ---- The same bits -------------------------------------------------------------------------------------------------

TEST(WeightedMean, EveryTargetGivesTheReferencesBits) {
  constexpr size_t kElements = 1037;  // a tail for every vector length
  auto updates = RandomUpdates(7, kElements);
  updates[2].delta[5] = 1024.0f;  // beyond what the fast rounding takes
  updates[3].delta[700] = -1023.9999f;
  updates[4].delta[9] = 1e-42f;  // a denormal: not zero, and lost
  const std::vector<float> expected = ReferenceMean(updates, FractionBits(Spec(kElements)));
  OnEveryTarget([&] {
    auto aggregation = Make(Spec(kElements));
    for (TestUpdate& update : updates) {
      ASSERT_OK(aggregation->Check(update.view(), update.weights()));
      ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
    }
    EXPECT_EQ(Saved(*aggregation).parts[0].nonzeros, 7 * 1037);
    EXPECT_EQ(Saved(*aggregation).parts[0].lost_nonzeros, 1);
    EXPECT_EQ((std::move(*aggregation).Finish())->parts[0].mean, expected);
  });
}

TEST(WeightedMean, BytesOfAnyAlignment_GiveTheSame) {
  auto updates = RandomUpdates(1, 100);
  std::string shifted(401, '\0');
  std::memcpy(shifted.data() + 1, updates[0].delta.data(), 400);
  const PartView part{.name = "delta", .data = std::as_bytes(std::span(shifted).subspan(1))};
  auto aligned = Make(Spec(100)), unaligned = Make(Spec(100));
  ASSERT_OK(aligned->Fold(updates[0].view(), updates[0].weights()));
  const UpdateView view{"a", 0, {&part, 1}, updates[0].scalars};
  ASSERT_OK(unaligned->Check(view, updates[0].weights()));
  ASSERT_OK(unaligned->Fold(view, updates[0].weights()));
  EXPECT_EQ(Saved(*aligned).parts[0].sums, Saved(*unaligned).parts[0].sums);
}

// The norm as it has always been: eight sums, by index.
double ReferenceNorm(const std::vector<float>& values) {
  double sums[8] = {};
  for (size_t i = 0; i < values.size(); ++i)
    sums[i % 8] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return std::sqrt(((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])));
}

// Values cut into runs of lengths that no vector divides, each with memory of its own around it.
struct CutUpdate {
  std::vector<std::vector<float>> memory, subtrahends;
  std::vector<FloatRun> runs;
  std::vector<PartView> parts;

  CutUpdate(const TestUpdate& whole, uint64_t most, uint32_t seed, bool differences) {
    Draws draws(StreamFor(3, "", Purpose::kSynthesize, seed), 0);
    for (size_t at = 0; at < whole.delta.size();) {
      const size_t count = std::min<size_t>(1 + draws.Below(most), whole.delta.size() - at), pad = draws.Below(9);
      std::vector<float>& values = memory.emplace_back(pad, 1e30f);
      values.insert(values.end(), whole.delta.begin() + static_cast<std::ptrdiff_t>(at),
                    whole.delta.begin() + static_cast<std::ptrdiff_t>(at + count));
      FloatRun run{values.data() + pad, nullptr, static_cast<int64_t>(count)};
      if (differences) {
        std::vector<float>& minus = subtrahends.emplace_back();
        for (size_t i = 0; i < count; ++i) minus.push_back(static_cast<float>(draws.Normal()));
        run.minus = minus.data();
      }
      runs.push_back(run);
      at += count;
    }
    parts = {{.name = "delta", .runs = runs}};
  }
  UpdateView view(const TestUpdate& whole) { return {whole.task, 0, parts, whole.scalars}; }
};

TEST(Take, AnySplitIntoRuns_GivesTheSameBitsAndNorm) {
  for (const size_t elements : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 1037}) {
    TestUpdate update = RandomUpdates(1, elements)[0];
    update.delta[elements / 2] = 1024.0f;
    update.delta[elements / 3] = -0.0f;
    const double norm = ReferenceNorm(update.delta);
    auto reference = Make(Spec(static_cast<int64_t>(elements)));
    ASSERT_OK(reference->Fold(update.view(), update.weights()));
    const std::string expected = Bytes(*reference);
    OnEveryTarget([&] {
      for (const uint64_t most : {1, 3, 8, 17, 40, 5000}) {
        CutUpdate cut(update, most, static_cast<uint32_t>(most), false);
        auto aggregation = Make(Spec(static_cast<int64_t>(elements)));
        ASSERT_OK(aggregation->Check(cut.view(update), update.weights()));
        const auto taken = aggregation->Take(cut.view(update), update.weights());
        ASSERT_OK(taken);
        EXPECT_EQ(taken->norm, norm) << elements << " in runs of at most " << most;
        EXPECT_EQ(Bytes(*aggregation), expected) << elements << " in runs of at most " << most;
      }
    });
  }
}

TEST(Take, ADifference_IsTheFoldOfWhatSubtractionGives) {
  const TestUpdate base = RandomUpdates(1, 517, 1.0f)[0];
  OnEveryTarget([&] {
    CutUpdate cut(base, 50, 1, true);
    TestUpdate update{base.task, {}, base.weight, base.scalars};
    for (const FloatRun& run : cut.runs) {
      for (int64_t i = 0; i < run.count; ++i) update.delta.push_back(run.values[i] - run.minus[i]);
    }
    auto subtracted = Make(Spec(517)), taken = Make(Spec(517));
    const auto expected = subtracted->Take(update.view(), update.weights());
    const auto got = taken->Take(cut.view(base), base.weights());
    ASSERT_OK(expected);
    ASSERT_OK(got);
    EXPECT_EQ(got->norm, ReferenceNorm(update.delta));
    EXPECT_EQ(expected->norm, got->norm);
    EXPECT_EQ(Bytes(*taken), Bytes(*subtracted));
  });
}

TEST(Take, ABadValueAnywhere_IsNamedAndLeavesNoTrace) {
  constexpr size_t kElements = 301;
  auto updates = RandomUpdates(2, kElements, 100.0f);
  for (TestUpdate& update : updates) {
    for (float& value : update.delta) value = std::clamp(value, -1024.0f, 1024.0f);
  }
  OnEveryTarget([&] {
    for (const int sum_bits : {64, 32}) {
      AggregationSpec spec = Spec(kElements);
      spec.parts[0].sum_bits = sum_bits;
      if (sum_bits == 32) spec.max_weight = 50, updates[0].weight = updates[1].weight = 49;
      auto aggregation = Make(spec);
      ASSERT_OK(aggregation->Fold(updates[0].view(), updates[0].weights()));
      const std::string before = Bytes(*aggregation);
      for (const size_t at : {0, 1, 7, 8, 100, 255, 299, 300}) {
        for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(), -1024.01f}) {
          for (const bool differences : {false, true}) {
            TestUpdate spoilt = updates[1];
            spoilt.delta[at] = bad;
            CutUpdate cut(spoilt, 40, static_cast<uint32_t>(at), false);
            std::vector<float> nothing(kElements, 0.0f);
            for (FloatRun& run : cut.runs) run.minus = differences ? nothing.data() : nullptr;
            const Status checked = aggregation->Check(cut.view(spoilt), spoilt.weights());
            EXPECT_THAT(checked, StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr(fmt::format("at element {} of its delta", at))));
            EXPECT_EQ(aggregation->Take(cut.view(spoilt), spoilt.weights()).status(), checked);
            EXPECT_EQ(aggregation->Fold(spoilt.view(), spoilt.weights()), checked);
            ASSERT_EQ(Bytes(*aggregation), before) << at;
          }
        }
      }
    }
  });
}

// A run with a factor adds what its products would, and is measured before it.
TEST(AddToSums, RunsWithAFactor_AddTheirProducts) {
  constexpr size_t kElements = 101;
  constexpr float kFactor = 0.3f;
  const TestUpdate update = RandomUpdates(1, kElements)[0];
  std::vector<float> less(kElements), difference(kElements), product(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    less[i] = static_cast<float>(i % 7) / 3;
    difference[i] = update.delta[i] - less[i];
    product[i] = difference[i] * kFactor;
  }
  OnEveryTarget([&] {
    for (const size_t first : {0, 3, 8}) {
      const auto count = static_cast<int64_t>(kElements - first);
      FloatRun run{update.delta.data() + first, less.data() + first, count, kFactor};
      const FloatRun expected{product.data() + first, nullptr, count};
      std::vector<int64_t> sums(kElements - first), expected_sums = sums;
      std::vector<int32_t> narrow(kElements - first), expected_narrow = narrow;
      FoldState state{.wire_index = 5}, expected_state = state;
      EXPECT_EQ(AddToSums(run, 1024, 10, std::span(sums), state), count);
      EXPECT_EQ(AddToSums(expected, 1024, 10, std::span(expected_sums), expected_state), count);
      EXPECT_EQ(sums, expected_sums);
      EXPECT_EQ(state.squares, expected_state.squares);
      EXPECT_EQ(state.nonzeros, expected_state.nonzeros);
      AddToSums(run, 4, 10, std::span(narrow), state);
      AddToSums(expected, 4, 10, std::span(expected_narrow), expected_state);
      EXPECT_EQ(narrow, expected_narrow);
      SubtractFromSums(run, count, 1024, std::span(sums));
      EXPECT_EQ(sums, std::vector<int64_t>(sums.size()));
      EXPECT_EQ(ValueOf(run, 2), product[first + 2]);
      std::vector<float> copied(kElements - first);
      CopyValues(run, 0, count, copied.data());
      EXPECT_TRUE(std::ranges::equal(copied, std::span(product).subspan(first)));
      copied.clear();
      EachValue({&run, 1}, [&](float value) { copied.push_back(value); });
      EXPECT_TRUE(std::ranges::equal(copied, std::span(product).subspan(first)));

      // Measured without it, as a run without factor is.
      FloatRun plain = run;
      plain.factor = 1;
      FoldState added{.wire_index = 5}, measured = added, measured_values = added;
      AddToSums(plain, 1024, 10, std::span(sums), added);
      AddSquares(run, measured);
      std::vector<float> values(kElements - first);
      AddSquares(plain, measured_values, values.data());
      EXPECT_EQ(measured.squares, added.squares);
      EXPECT_EQ(measured.wire_index, added.wire_index);
      EXPECT_EQ(measured_values.squares, added.squares);
      EXPECT_TRUE(std::ranges::equal(values, std::span(difference).subspan(first)));
    }
    // A value beyond the bound that its factor brings within, and the other way round.
    const std::vector<float> large(40, 3000.0f);
    EXPECT_EQ(FirstBad({large.data(), nullptr, 40, kFactor}, 10), 40);
    EXPECT_EQ(FirstBad({large.data(), nullptr, 40}, 10), 0);
    EXPECT_EQ(FirstBad({product.data(), nullptr, 40, 1e9f}, 10), 0);
  });
}

// Blocks of some values of a vector.
class BlocksOf : public MadePart {
 public:
  BlocksOf(const std::vector<float>& values, size_t block) : values_(values), block_(block) {}
  int64_t elements() const override { return std::ssize(values_); }
  size_t blocks() const override { return (values_.size() + block_ - 1) / block_; }
  FloatRun Make(size_t block) const override {
    const size_t first = block * block_;
    return {values_.data() + first, nullptr, static_cast<int64_t>(std::min(block_, values_.size() - first))};
  }

 private:
  const std::vector<float>& values_;
  const size_t block_;
};

// Updates that are made while they are folded, all at once: what is left of it, and the norms, are those of folds one
// after the other, and of those that are refused nothing is left, wherever their bad value is.
TEST(TakeTogether, MadeBlockByBlock_IsAFoldOfEachAndBadOnesLeaveNoTrace) {
  constexpr size_t kElements = 1000;
  for (const int sum_bits : {64, 32}) {
    AggregationSpec spec = Spec(kElements, 10);
    spec.parts[0].sum_bits = sum_bits;
    spec.max_weight = 1000;
    if (sum_bits == 32) spec.parts[0].value_bits = 0;
    for (const size_t block : {16, 37, 999, 1000, 5000}) {
      std::vector<TestUpdate> updates = RandomUpdates(5, kElements);
      for (TestUpdate& update : updates) update.weight = 1 + update.weight % 1000;
      updates[0].delta[0] = std::numeric_limits<float>::quiet_NaN();
      updates[3].delta[kElements - 1] = 2000.0f;
      std::vector<BlocksOf> made;
      for (const TestUpdate& update : updates) made.emplace_back(update.delta, block);
      std::vector<PartView> parts;
      for (const BlocksOf& blocks : made) parts.push_back({.name = "delta", .made = &blocks});
      std::vector<UpdateView> views;
      std::vector<Weights> weights;
      for (size_t i = 0; i < updates.size(); ++i) {
        views.push_back({updates[i].task, 0, std::span(parts).subspan(i, 1), updates[i].scalars});
        weights.push_back(updates[i].weights());
      }
      const auto alone = Make(spec), together = Make(spec);
      const std::vector<StatusOr<Aggregation::Taken>> taken = together->TakeTogether(views, weights);
      ASSERT_EQ(taken.size(), updates.size());
      for (size_t i = 0; i < updates.size(); ++i) {
        const auto one = alone->Take(updates[i].view(), weights[i]);
        EXPECT_EQ(one.status(), taken[i].status()) << i;
        EXPECT_EQ(one.ok(), i != 0 && i != 3);
        if (one.ok() && taken[i].ok()) {
          EXPECT_EQ(one->norm, taken[i]->norm);
        }
      }
      EXPECT_EQ(Bytes(*together), Bytes(*alone));
      // Once more: each was folded before, or is refused again.
      for (const auto& again : together->TakeTogether(views, weights)) {
        if (again.ok()) {
          EXPECT_EQ(again->norm, 0);
        }
      }
      EXPECT_EQ(Bytes(*together), Bytes(*alone));
    }
  }
}

TEST(TakeTogether, MoreThanAVersionTakes_TakesThoseForWhomThereIsRoom) {
  const auto aggregation = Make(Spec(3, 2));
  std::vector<TestUpdate> updates = RandomUpdates(3, 3);
  std::vector<UpdateView> views;
  std::vector<Weights> weights;
  for (TestUpdate& update : updates) {
    views.push_back(update.view());
    weights.push_back(update.weights());
  }
  const auto taken = aggregation->TakeTogether(views, weights);
  EXPECT_OK(taken[0].status());
  EXPECT_OK(taken[1].status());
  EXPECT_THAT(taken[2].status(), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("the 2 of a version")));
}

TEST(Take, RunsThatDoNotFit_AreRefused) {
  TestUpdate update = RandomUpdates(1, 20)[0];
  CutUpdate cut(update, 6, 1, false);
  EXPECT_THAT(Make(Spec(19))->Take(cut.view(update), update.weights()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has 20 values in runs and 0 bytes where 19")));
  cut.parts[0].data = std::as_bytes(std::span(update.delta));
  EXPECT_THAT(Make(Spec(20))->Take(cut.view(update), update.weights()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("20 values in runs and 80 bytes")));
}

TEST(WeightedMean, WeightsAndValuesNearTheirBounds_KeepTheReferencesBits) {
  constexpr size_t kElements = 531;
  auto updates = RandomUpdates(8, kElements, 300.0f);
  for (TestUpdate& update : updates) {
    update.weight = 65536 - update.weight / 100;
    for (float& value : update.delta) value = std::clamp(value, -1024.0f, 1024.0f);
  }
  AggregationSpec spec = Spec(kElements, 8);
  const std::vector<float> expected = ReferenceMean(updates, FractionBits(spec));
  OnEveryTarget([&] {
    auto aggregation = Make(spec);
    for (TestUpdate& update : updates) ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
    EXPECT_EQ((std::move(*aggregation).Finish())->parts[0].mean, expected);
  });
}

TEST(WeightedMean, SumsOf32Bits_AreTheReferencesAndTravel) {
  constexpr size_t kElements = 133;
  auto updates = RandomUpdates(6, kElements, 0.2f);
  for (TestUpdate& update : updates) update.weight = 1 + update.weight % 100;
  AggregationSpec spec = Spec(kElements, 6);
  spec.parts[0].sum_bits = 32;
  spec.parts[0].value_bits = 1;
  spec.max_weight = 100;
  const std::vector<float> expected = ReferenceMean(updates, FractionBits(spec));
  EXPECT_EQ(FractionBits(spec), 19);
  OnEveryTarget([&] {
    auto left = Make(spec), right = Make(spec);
    for (size_t i = 0; i < updates.size(); ++i)
      ASSERT_OK((i < 2 ? left : right)->Fold(updates[i].view(), updates[i].weights()));
    const auto travelled = Read(spec, Bytes(*right));
    ASSERT_OK(travelled);
    EXPECT_EQ(travelled->parts[0].sums32.size(), kElements);
    ASSERT_OK(left->Merge(*travelled));
    EXPECT_EQ((std::move(*left).Finish())->parts[0].mean, expected);
  });
}

// Under masks a sum is any number of 32 bits.
TEST(AddToSums, Sums_WrapAround) {
  const std::vector<float> values(35, 3.0f);
  OnEveryTarget([&] {
    const FloatRun run{values.data(), nullptr, 35};
    std::vector<int32_t> narrow(35, std::numeric_limits<int32_t>::max());
    std::vector<int64_t> wide(35, std::numeric_limits<int64_t>::max());
    FoldState state;
    EXPECT_EQ(AddToSums(run, 1.0, 2, std::span(narrow), state), 35);
    EXPECT_EQ(AddToSums(run, 1.0, 2, std::span(wide), state), 35);
    EXPECT_EQ(narrow, std::vector<int32_t>(35, std::numeric_limits<int32_t>::min() + 2));
    EXPECT_EQ(wide, std::vector<int64_t>(35, std::numeric_limits<int64_t>::min() + 2));
    SubtractFromSums(run, 35, 1.0, std::span(narrow));
    SubtractFromSums(run, 35, 1.0, std::span(wide));
    EXPECT_EQ(narrow, std::vector<int32_t>(35, std::numeric_limits<int32_t>::max()));
    EXPECT_EQ(wide, std::vector<int64_t>(35, std::numeric_limits<int64_t>::max()));
  });
}

TEST(WeightedMean, AnyOrderOfFolds_GivesTheSameBits) {
  auto updates = RandomUpdates(10, 257);
  const auto fold = [&] {
    auto aggregation = Make(Spec(257));
    for (TestUpdate& update : updates) EXPECT_OK(aggregation->Fold(update.view(), update.weights()));
    return Bytes(*aggregation);
  };
  const std::string first = fold();
  for (int turn = 0; turn < 20; ++turn) {
    Draws draws(StreamFor(1, "", Purpose::kShuffle), static_cast<uint32_t>(turn));
    for (size_t i = updates.size(); i > 1; --i) std::swap(updates[i - 1], updates[draws.Below(i)]);
    EXPECT_EQ(fold(), first);
  }
}

TEST(WeightedMean, AnySplitIntoPartials_GivesTheSameBits) {
  auto updates = RandomUpdates(10, 64);
  auto whole = Make(Spec(64));
  for (TestUpdate& update : updates) ASSERT_OK(whole->Fold(update.view(), update.weights()));
  const std::string expected = Bytes(*whole);
  for (size_t cut = 0; cut <= 10; ++cut) {
    auto left = Make(Spec(64)), right = Make(Spec(64));
    for (size_t i = 0; i < 10; ++i) ASSERT_OK((i < cut ? left : right)->Fold(updates[i].view(), updates[i].weights()));
    // The right one travels.
    if (cut < 10) {
      const auto travelled = Read(Spec(64), Bytes(*right));
      ASSERT_OK(travelled);
      ASSERT_OK(left->Check(*travelled));
      ASSERT_OK(left->Merge(*travelled));
    }
    EXPECT_EQ(Bytes(*left), expected) << cut;
  }
}

TEST(WeightedMean, FoldOfATaskTwice_CountsOnce) {
  auto aggregation = Make(Spec(2, 1));
  TestUpdate update{"a", {1.0f, 2.0f}, 3};
  ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
  const std::string once = Bytes(*aggregation);
  ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
  EXPECT_EQ(Bytes(*aggregation), once);
}

TEST(WeightedMean, TheLargestValuesAndWeights_DoNotOverflow) {
  AggregationSpec spec = Spec(9, 4);
  spec.max_weight = kMaxWeight;
  OnEveryTarget([&] {
    auto aggregation = Make(spec);
    for (int i = 0; i < 4; ++i) {
      TestUpdate update{fmt::format("t{}", i), std::vector<float>(9, i % 2 == 0 ? 1024.0f : 1024.0f), kMaxWeight};
      ASSERT_OK(aggregation->Check(update.view(), update.weights()));
      ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
    }
    EXPECT_EQ((std::move(*aggregation).Finish())->parts[0].mean, std::vector<float>(9, 1024.0f));
  });
}

// ---- Refusals ------------------------------------------------------------------------------------------------------

struct Refusal {
  std::function<void(TestUpdate&)> spoil;
  std::string message;
};

TEST(Check, BadUpdates_AreRefusedAndAggregateUnchanged) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<Refusal> refusals = {
      {[=](TestUpdate& u) { u.delta[2] = nan; },
       "the update of task 't' has NaN at element 2 of its delta; its training diverged"},
      {[=](TestUpdate& u) { u.delta[17] = -inf; },
       "the update of task 't' has infinity at element 17 of its delta; its training diverged"},
      {[](TestUpdate& u) { u.delta[0] = 1024.001f; },
       "the update of task 't' has 1024.001 at element 0 of its delta, beyond ±2^10; raise server.value_bits if that "
       "is no error"},
      {[](TestUpdate& u) { u.delta[18] = -5000.0f; }, "has -5000 at element 18 of its delta, beyond ±2^10"},
      {[](TestUpdate& u) { u.delta.pop_back(); },
       "the delta of task 't': it has 72 bytes where 19 float32 elements have 76"},
      {[](TestUpdate& u) { u.delta.push_back(0); },
       "the delta of task 't': it has 80 bytes where 19 float32 elements have 76"},
      {[](TestUpdate& u) { u.delta.clear(); }, "the delta of task 't': it has 0 bytes"},
      {[](TestUpdate& u) { u.weight = 0; }, "the update of task 't' weighs 0; a weight is at least 1"},
      {[](TestUpdate& u) { u.weight = -7; }, "the update of task 't' weighs -7; a weight is at least 1"},
      {[](TestUpdate& u) { u.weight = 65537; },
       "the update of task 't' weighs 65537, more than server.max_weight = 65536; raise server.max_weight"},
      {[](TestUpdate& u) { u.weight = std::numeric_limits<int64_t>::max(); }, "raise server.max_weight"},
      {[=](TestUpdate& u) { u.scalars["train_loss"] = nan; }, "the update of task 't' reports train_loss = nan"},
      {[](TestUpdate& u) { u.task.clear(); }, "an update names no task"},
  };
  OnEveryTarget([&] {
    for (const Refusal& refusal : refusals) {
      auto aggregation = Make(Spec(19));
      const std::string before = Bytes(*aggregation);
      TestUpdate update{"t", std::vector<float>(19, 0.5f), 3, {{"train_loss", 1.0}}};
      refusal.spoil(update);
      const Status status = aggregation->Check(update.view(), update.weights());
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(refusal.message)));
      EXPECT_EQ(aggregation->Fold(update.view(), update.weights()), status);
      EXPECT_EQ(Bytes(*aggregation), before);
    }
  });
}

TEST(Check, ValuesAtTheBound_AreTaken) {
  auto aggregation = Make(Spec(2));
  TestUpdate update{"t", {1024.0f, -1024.0f}, 65536};
  EXPECT_OK(aggregation->Check(update.view(), update.weights()));
}

TEST(Check, WrongParts_AreRefused) {
  auto aggregation = Make(Spec(1));
  const float value = 1;
  const auto data = std::as_bytes(std::span(&value, 1));
  const Scalars scalars;
  const auto error = [&](std::vector<PartView> parts) {
    const UpdateView view{"t", 0, parts, scalars};
    EXPECT_EQ(aggregation->Fold(view, {.parts = {1}}).code(), aggregation->Check(view, {.parts = {1}}).code());
    return std::string(Message(aggregation->Check(view, {.parts = {1}})));
  };
  const PartView delta{.name = "delta", .data = data};
  EXPECT_EQ(error({}), "the update of task 't' has no part 'delta'");
  EXPECT_EQ(error({{.name = "control", .data = data}}),
            "the update of task 't' has a part 'control', which the plan does not take");
  EXPECT_EQ(error({delta, delta}), "the update of task 't' has two parts 'delta'");
}

TEST(Fold, MoreUpdatesThanAVersionTakes_IsResourceExhausted) {
  auto aggregation = Make(Spec(1, 2));
  for (const char* task : {"a", "b"}) {
    TestUpdate update{task, {1.0f}};
    ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
  }
  TestUpdate third{"c", {1.0f}};
  const Status status = aggregation->Fold(third.view(), third.weights());
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               "2 updates were folded and 1 more would exceed the 2 of a version"));
  EXPECT_EQ(Saved(*aggregation).tasks.size(), 2u);
}

TEST(Finish, NothingFolded_IsFailedPrecondition) {
  EXPECT_THAT(std::move(*Make(Spec(1))).Finish(),
              StatusIs(absl::StatusCode::kFailedPrecondition, "no update was folded, so there is no mean of any"));
  // One that was refused has left nothing.
  auto aggregation = Make(Spec(1));
  TestUpdate update{"a", {std::nanf("")}};
  EXPECT_THAT(aggregation->Fold(update.view(), update.weights()), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(std::move(*aggregation).Finish(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

// A private version divides by the planned number of updates, and a sample of nobody is one of its versions.
TEST(Finish, NothingFoldedOverAConstant_IsZero) {
  AggregationSpec spec = Spec(3);
  spec.parts[0].weigh = "one";
  spec.parts[0].denominator = {.kind = Denominator::Kind::kConstant, .constant = 4};
  EXPECT_TRUE(IsDefinedWithoutUpdates(spec));
  auto input = std::move(*Make(spec)).FinishUndivided(Staleness());
  ASSERT_OK(input);
  EXPECT_EQ(input->updates, 0);
  ASSERT_NE(input->parts[0].undivided, nullptr);
  EXPECT_THAT(input->parts[0].undivided->sums(), ::testing::ElementsAre(0, 0, 0));
  input->parts[0].undivided->sums()[1] = int64_t{2} << FractionBits(spec);
  input->parts[0].Divide();
  EXPECT_THAT(input->parts[0].mean, ::testing::ElementsAre(0, 0.5f, 0));
  EXPECT_FALSE(IsDefinedWithoutUpdates(Spec(3)));
}

TEST(Create, BadSpecs_NameTheField) {
  const auto error = [](auto change) {
    AggregationSpec spec = Spec(1);
    change(spec);
    return testing::ErrorOf(Aggregation::Create(spec));
  };
  EXPECT_THAT(error([](auto& s) { s.parts[0].elements = 0; }), HasSubstr("an update of 0 elements"));
  EXPECT_THAT(error([](auto& s) { s.max_weight = 0; }), HasSubstr("server.max_weight = 0 is not between"));
  EXPECT_THAT(error([](auto& s) { s.max_weight = int64_t{1} << 29; }), HasSubstr("server.max_weight = 536870912"));
  EXPECT_THAT(error([](auto& s) { s.parts[0].value_bits = -31; }),
              HasSubstr("server.value_bits = -31 is not between -30"));
  EXPECT_THAT(error([](auto& s) { s.weight_fraction_bits = -1; }), HasSubstr("server.weight_fraction_bits = -1"));
  EXPECT_THAT(error([](auto& s) { s.weight_fraction_bits = 29; }), HasSubstr("server.weight_fraction_bits = 29"));
  EXPECT_EQ(error([](auto& s) { s.weight_fraction_bits = 13; }),
            "server.max_weight = 65536 in units of 2^-13 is not below 2^29; lower it or server.weight_fraction_bits");
  EXPECT_THAT(error([](auto& s) { s.weight_fraction_bits = 12; }), HasSubstr("no error"));
  EXPECT_THAT(error([](auto& s) { s.parts[0].sum_bits = 48; }), HasSubstr("sums of 48 bits"));
  EXPECT_THAT(error([](auto& s) { s.staleness_bits = 9; }), HasSubstr("9 bits for staleness"));
  EXPECT_THAT(error([](auto& s) { s.parts[0].value_bits = 31; }), HasSubstr("server.value_bits = 31"));
  EXPECT_THAT(error([](auto& s) { s.updates_per_version = 0; }), HasSubstr("0 updates per version"));
  EXPECT_EQ(
      error([](auto& s) {
        s.parts[0].value_bits = 30;
        s.max_weight = kMaxWeight;
      }),
      "server.value_bits = 30, server.max_weight = 536870911 and 10 updates per version (server.clients_per_round) "
      "need 1 bits more than the 62 of a sum; lower one of them");
  EXPECT_EQ(error([](auto& s) {
              s.parts[0].sum_bits = 32;
              s.weight_fraction_bits = 8;
            }),
            "server.value_bits = 10, server.max_weight = 65536, server.weight_fraction_bits = 8 and 10 updates per "
            "version (server.clients_per_round) need 8 bits more than the 30 of a sum; lower one of them");
  EXPECT_EQ(error([](auto& s) { s.rule = "maen"; }), "there is no aggregation rule 'maen'. Did you mean 'mean'?");
}

TEST(Create, SpecsAtTheEdges_AreTaken) {
  const auto created = [](auto change) {
    AggregationSpec spec = Spec(1);
    change(spec, spec.parts[0]);
    return Aggregation::Create(spec).status();
  };
  using Kind = Denominator::Kind;
  EXPECT_OK(created([](auto&, auto& p) { p.value_bits = -30; }));
  EXPECT_OK(created([](auto& s, auto& p) {
    s.max_weight = 1;
    p.value_bits = 30;
  }));
  EXPECT_OK(created([](auto& s, auto&) { s.max_weight = kMaxWeight; }));
  EXPECT_OK(created([](auto& s, auto&) {
    s.max_weight = 1;
    s.weight_fraction_bits = 28;
  }));
  EXPECT_OK(created([](auto& s, auto&) { s.updates_per_version = int64_t{1} << 31; }));
  for (const double constant : {0x1p-100, 1.0, 0x1p100}) {
    EXPECT_OK(created([&](auto&, auto& p) { p.denominator = {Kind::kConstant, constant}; })) << constant;
  }
  for (const double constant : {0.0, -1.0, 0x1p-101, 0x1p101, std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::infinity()}) {
    EXPECT_THAT(created([&](auto&, auto& p) {
                  p.denominator = {Kind::kConstant, constant};
                }),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not between 2^-100 and 2^100")))
        << constant;
  }
}

// ---- Partials ------------------------------------------------------------------------------------------------------

Partial SomePartial() {
  auto aggregation = Make(Spec(5));
  TestUpdate update{"a", {1, 2, 3, 4, 5}, 7};
  EXPECT_OK(aggregation->Fold(update.view(), update.weights()));
  return Saved(*aggregation);
}

TEST(Merge, BadPartials_AreRefusedAndAggregateUnchanged) {
  const auto error = [](auto spoil) {
    auto aggregation = Make(Spec(5));
    const std::string before = Bytes(*aggregation);
    Partial partial = SomePartial();
    spoil(partial, partial.parts[0]);
    const Status status = aggregation->Merge(partial);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_EQ(Bytes(*aggregation), before);
    return std::string(Message(status));
  };
  EXPECT_THAT(error([](auto& p, auto&) { p.spec = Spec(6).digest(); }), HasSubstr("cannot join one of aggregation"));
  EXPECT_THAT(error([](auto& p, auto&) { p.parts.pop_back(); }), HasSubstr("cannot join one of aggregation"));
  EXPECT_THAT(error([](auto& p, auto&) { p.scalars.emplace_back(); }), HasSubstr("cannot join one of aggregation"));
  EXPECT_THAT(error([](auto&, auto& p) { p.sums = SumArray<int64_t>(4); }),
              HasSubstr("a partial has 4 sums of part 'delta' where 5 belong"));
  EXPECT_THAT(error([](auto&, auto& p) { p.sums32 = {1}; }),
              HasSubstr("a partial has 6 sums of part 'delta' where 5 belong"));
  EXPECT_THAT(error([](auto&, auto& p) { p.weight_sum = 65537; }), HasSubstr("claims the weight 65537"));
  EXPECT_THAT(error([](auto&, auto& p) { p.weight_sum = 0; }), HasSubstr("claims the weight 0"));
  EXPECT_THAT(error([](auto&, auto& p) { p.updates = 0; }), HasSubstr("of 1 updates claims 0 of part 'delta'"));
  EXPECT_THAT(error([](auto&, auto& p) { p.updates = 2; }), HasSubstr("of 1 updates claims 2 of part 'delta'"));
  EXPECT_THAT(error([](auto& p, auto&) { p.tasks.clear(); }), HasSubstr("of 0 updates claims 1 of part 'delta'"));
  EXPECT_THAT(error([](auto&, auto& p) { p.sums[3] = std::numeric_limits<int64_t>::min(); }),
              HasSubstr("at element 3 of its delta is beyond"));
  EXPECT_THAT(error([](auto&, auto& p) { p.sums[0] = (int64_t{7} << 42) + 1; }),
              HasSubstr("beyond the range of a weight of 7"));
  EXPECT_THAT(error([](auto&, auto& p) { p.lost_nonzeros = 6; }), HasSubstr("6 lost of 5 non-zero values"));
  EXPECT_THAT(error([](auto&, auto& p) { p.lost_nonzeros = -1; }), HasSubstr("which cannot be"));
  EXPECT_THAT(error([](auto&, auto& p) { p.nonzeros = 1000; }), HasSubstr("which cannot be"));
}

TEST(Spec, EveryField_IsInItsDigest) {
  AggregationSpec spec = Spec(5);
  spec.scalars = {{"train_loss"}};
  std::set<Digest> digests = {spec.digest()};
  const auto differs = [&](auto change) {
    AggregationSpec other = spec;
    change(other, other.parts[0]);
    return digests.insert(other.digest()).second;
  };
  EXPECT_TRUE(differs([](auto& s, auto&) { s.rule = "median"; }));
  EXPECT_TRUE(differs([](auto& s, auto&) { s.parts.push_back({.name = "dc"}); }));
  EXPECT_TRUE(differs([](auto& s, auto&) { s.scalars[0].name = "right"; }));
  EXPECT_TRUE(differs([](auto& s, auto&) { s.scalars[0].weigh = "one"; }));
  EXPECT_TRUE(differs([](auto& s, auto&) { s.updates_per_version = 11; }));
  EXPECT_TRUE(differs([](auto& s, auto&) { s.max_weight = 9; }));
  EXPECT_TRUE(differs([](auto& s, auto&) { s.weight_fraction_bits = 1; }));
  EXPECT_TRUE(differs([](auto& s, auto&) { s.staleness_bits = 8; }));
  EXPECT_TRUE(differs([](auto&, auto& p) { p.name = "d"; }));
  EXPECT_TRUE(differs([](auto&, auto& p) { p.codec = "int8"; }));
  EXPECT_TRUE(differs([](auto&, auto& p) { p.elements = 6; }));
  EXPECT_TRUE(differs([](auto&, auto& p) { p.value_bits = -3; }));
  EXPECT_TRUE(differs([](auto&, auto& p) { p.sum_bits = 32; }));
  EXPECT_TRUE(differs([](auto&, auto& p) { p.weigh = "one"; }));
  EXPECT_TRUE(differs([](auto&, auto& p) { p.optional = true; }));
  EXPECT_TRUE(differs([](auto&, auto& p) { p.only_where = {"model", 0}; }));
  EXPECT_TRUE(differs([](auto&, auto& p) { p.denominator.kind = Denominator::Kind::kTasks; }));
  EXPECT_TRUE(differs([](auto&, auto& p) { p.denominator.constant = 2; }));
  EXPECT_TRUE(differs([](auto&, auto& p) { p.denominator.scalar = "s"; }));
  EXPECT_FALSE(differs([](auto&, auto&) {}));
}

TEST(Merge, ATaskFoldedHere_IsFailedPrecondition) {
  auto aggregation = Make(Spec(5));
  ASSERT_OK(aggregation->Merge(SomePartial()));
  const Status status = aggregation->Merge(SomePartial());
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               "task 'a' of a partial was folded here already; it would count twice"));
  EXPECT_EQ(Saved(*aggregation).parts[0].weight_sum, 7);
}

TEST(Merge, TheFirstPartial_IsMovedIn) {
  auto gathered = Make(Spec(5)), whole = Make(Spec(5)), reference = Make(Spec(5));
  TestUpdate a{"a", {1, 2, 3, 4, 5}}, b{"b", {1, 0, 1, 0, 1}, 3};
  ASSERT_OK(gathered->Fold(a.view(), a.weights()));
  Partial partial = gathered->Extract(0);
  const int64_t* const sums = partial.parts[0].sums.data();
  ASSERT_OK(whole->Merge(std::move(partial)));
  EXPECT_EQ(whole->Extract(0).parts[0].sums.data(), sums);
  // Both are empty again, and can go on.
  for (Aggregation* again : {gathered.get(), whole.get()}) {
    EXPECT_TRUE(again->Save().empty());
    ASSERT_OK(again->Fold(a.view(), a.weights()));
  }
  ASSERT_OK(reference->Fold(b.view(), b.weights()));
  ASSERT_OK(whole->Merge(reference->Extract(0)));
  ASSERT_OK(reference->Fold(a.view(), a.weights()));
  ASSERT_OK(reference->Fold(b.view(), b.weights()));
  EXPECT_EQ(Bytes(*whole), Bytes(*reference));
}

TEST(Merge, MoreThanAVersionTakes_IsResourceExhausted) {
  AggregationSpec spec = Spec(5, 1);
  auto one = Make(spec), other = Make(spec);
  TestUpdate a{"a", {1, 1, 1, 1, 1}}, b{"b", {1, 1, 1, 1, 1}};
  ASSERT_OK(one->Fold(a.view(), a.weights()));
  ASSERT_OK(other->Fold(b.view(), b.weights()));
  EXPECT_THAT(one->Merge(Saved(*other)), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(Saved(*one).parts[0].weight_sum, 1);
}

// Whoever folds what strangers send holds a clipped update against the clip: to the rounding of its values, and without
// a trace of what is refused.
TEST(Aggregation, UpdateLongerThanMostNorm_IsRefusedWithoutATrace) {
  AggregationSpec spec = Spec(4);
  const Digest digest = spec.digest();
  spec.most_norm = 5;
  EXPECT_EQ(spec.digest(), digest) << "partials of those who check and of those who do not meet";
  auto aggregation = Make(spec);
  TestUpdate update{.task = "a", .delta = {3, 0, -4, 0}, .weight = 7};
  ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
  const std::string before = Bytes(*aggregation);
  update.task = "b";
  update.delta[3] = 0.01f;
  EXPECT_THAT(aggregation->Fold(update.view(), update.weights()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::AllOf(HasSubstr("the update of task 'b' has the norm 5.0000"),
                                        HasSubstr(", more than the 5 of privacy.clip; its client does not clip"))));
  EXPECT_EQ(Bytes(*aggregation), before);
  update.delta[3] = 0.002f;  // as rounding leaves it
  EXPECT_OK(aggregation->Fold(update.view(), update.weights()));
}

// What a partial of strangers holds is a sum alone: it cannot be longer than all its updates together may be. Of a rule
// that keeps the updates each is held against the clip.
TEST(Aggregation, PartialOfLongerUpdatesThanMostNorm_IsRefused) {
  for (const char* rule : {"mean", "trimmed_mean"}) {
    SCOPED_TRACE(rule);
    AggregationSpec spec = Spec(4);
    spec.rule = rule;
    const auto saved = [&](float last) {
      auto site = Make(spec);
      for (const char* task : {"a", "b"}) {
        TestUpdate update{.task = task, .delta = {3, 0, -4, last}, .weight = 7};
        EXPECT_OK(site->Fold(update.view(), update.weights()));
      }
      return Saved(*site);
    };
    AggregationSpec strict = spec;
    strict.most_norm = 5;
    const auto aggregation = Make(strict);
    EXPECT_OK(aggregation->Check(saved(0)));
    EXPECT_OK(aggregation->Check(saved(0.002f))) << "as rounding leaves it";
    EXPECT_THAT(aggregation->Check(saved(0.1f)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::AllOf(HasSubstr("of privacy.clip"), HasSubstr("does not clip"))));
  }
}

}  // namespace
}  // namespace rivulet
