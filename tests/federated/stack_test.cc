// Stacked adapters: the sum of products is exact before truncation, and the best of its rank afterwards.
#include <algorithm>
#include <cmath>

#include "federated/aggregation/low_rank.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::Make;
using testing::TestUpdate;

using Matrix = std::vector<double>;  // row-major

std::vector<float> Normal(int64_t elements, uint32_t number) {
  Draws draws(StreamFor(11, "", Purpose::kSynthesize, number), 0);
  std::vector<float> values(static_cast<size_t>(elements));
  for (float& value : values) value = static_cast<float>(draws.Normal());
  return values;
}

template <typename T>
void AddProduct(Matrix& sum, double weight, const std::vector<T>& a, const std::vector<T>& b, int64_t rows,
                int64_t columns) {
  const int64_t rank = std::ssize(a) / rows;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      for (int64_t r = 0; r < rank; ++r)
        sum[static_cast<size_t>(row * columns + column)] +=
            weight * static_cast<double>(a[static_cast<size_t>(row * rank + r)]) *
            static_cast<double>(b[static_cast<size_t>(r * columns + column)]);
}

double Norm(const Matrix& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double Distance(const Matrix& a, const Matrix& b) {
  Matrix difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  return Norm(difference);
}

// Ranks 4, 8 and 16 of the issue; wide, tall and thin matrices, thinner too than the ranks together.
TEST(LowRankSum, BeforeTheCut_IsTheMeanOfTheProducts) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{40, 60}, {200, 30}, {33, 10}, {6, 50}}) {
    SCOPED_TRACE(fmt::format("{} x {}", rows, columns));
    LowRankSum sum(rows, columns);
    Matrix mean(static_cast<size_t>(rows * columns));
    const std::vector<std::pair<double, int64_t>> clients = {{0.5, 4}, {0.3, 8}, {0.2, 16}};
    for (size_t k = 0; k < clients.size(); ++k) {
      const auto [weight, rank] = clients[k];
      const auto a = Normal(rows * rank, static_cast<uint32_t>(2 * k)),
                 b = Normal(rank * columns, static_cast<uint32_t>(2 * k + 1));
      sum.Add(weight, a, b);
      AddProduct(mean, weight, a, b, rows, columns);
    }
    EXPECT_EQ(sum.rank(), 28);
    const LowRankSum::Factors whole = sum.CutTo(28);
    Matrix product(mean.size());
    AddProduct(product, 1, whole.a, whole.b, rows, columns);
    for (size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(product[i], mean[i], 1e-6);
    EXPECT_NEAR(whole.dropped_share, 0, 1e-12);

    // The cut's error is what it says, and falls with the rank.
    double before = 1;
    for (const int64_t rank : {1, 2, 4}) {
      const LowRankSum::Factors cut = sum.CutTo(rank);
      Matrix near(mean.size());
      AddProduct(near, 1, cut.a, cut.b, rows, columns);
      const double share = std::pow(Distance(near, mean) / Norm(mean), 2);
      EXPECT_NEAR(share, cut.dropped_share, 1e-9);
      EXPECT_LT(share, before);
      before = share;
    }
  }
}

// diag(3, 2, 1) as three clients' products: the best of rank 2 leaves 1 of 14 out, and the factors are balanced.
TEST(LowRankSum, Cut_KeepsTheLargestSingularValues) {
  LowRankSum sum(3, 3);
  for (size_t i = 0; i < 3; ++i) {
    std::vector<float> a(3), b(3);
    a[i] = 1;
    b[i] = static_cast<float>(3 - i);
    sum.Add(1, a, b);
  }
  const LowRankSum::Factors cut = sum.CutTo(2);
  EXPECT_NEAR(cut.dropped_share, 1.0 / 14, 1e-12);
  Matrix product(9);
  AddProduct(product, 1, cut.a, cut.b, 3, 3);
  const Matrix expected = {3, 0, 0, 0, 2, 0, 0, 0, 0};
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(product[i], expected[i], 1e-12);
  EXPECT_NEAR(std::abs(cut.a[0]), std::sqrt(3), 1e-12);
  EXPECT_NEAR(std::abs(cut.b[0]), std::sqrt(3), 1e-12);
}

TEST(LowRankSum, OfZeros_IsZero) {
  LowRankSum sum(4, 5);
  sum.Add(1, std::vector<float>(8), std::vector<float>(10));
  const LowRankSum::Factors cut = sum.CutTo(2);
  EXPECT_EQ(cut.dropped_share, 0);
  EXPECT_TRUE(std::ranges::all_of(cut.a, [](double value) { return value == 0; }));
  EXPECT_TRUE(std::ranges::all_of(cut.b, [](double value) { return value == 0; }));
}

// A model of one adapter [6, 3] · [3, 5], stored either way round, between two other variables.
struct Adapted {
  static constexpr int64_t kRows = 6, kRank = 3, kColumns = 5, kOther = 4;
  static constexpr int64_t kA = kOther, kB = kA + kRows * kRank, kElements = kB + kRank * kColumns + kOther;
  bool transposed;

  std::shared_ptr<AggregationBase> Base() const {
    auto base = std::make_shared<AggregationBase>();
    base->values = Normal(kElements, 90);
    base->pairs = {{kA, kB, kRows, kRank, kColumns, transposed}};
    return base;
  }
  // Row-major factors of these values.
  std::pair<std::vector<float>, std::vector<float>> FactorsOf(const std::vector<float>& values) const {
    std::vector<float> a(kRows * kRank), b(kRank * kColumns);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t r = 0; r < kRank; ++r)
        a[static_cast<size_t>(row * kRank + r)] =
            values[static_cast<size_t>(kA + (transposed ? r * kRows + row : row * kRank + r))];
    for (int64_t r = 0; r < kRank; ++r)
      for (int64_t c = 0; c < kColumns; ++c)
        b[static_cast<size_t>(r * kColumns + c)] =
            values[static_cast<size_t>(kB + (transposed ? c * kRank + r : r * kColumns + c))];
    return {a, b};
  }
};

AggregationSpec StackSpec(int64_t elements, double rank = 0) {
  AggregationSpec spec = testing::Spec(elements);
  spec.rule = "stack";
  spec.rule_settings = {{"rank", rank}};
  return spec;
}

std::vector<TestUpdate> ThreeUpdates() {
  std::vector<TestUpdate> updates;
  for (uint32_t k = 0; k < 3; ++k)
    updates.push_back({.task = fmt::format("task-{}", k), .delta = Normal(Adapted::kElements, k), .weight = 1 + k});
  return updates;
}

ServerInput::Part Stacked(const Adapted& adapted, double rank, const std::vector<int>& order = {0, 1, 2}) {
  std::vector<TestUpdate> updates = ThreeUpdates();
  const auto aggregation = Make(StackSpec(Adapted::kElements, rank));
  for (const int k : order) {
    TestUpdate& update = updates[static_cast<size_t>(k)];
    EXPECT_OK(aggregation->Fold(update.view(), update.weights()));
  }
  aggregation->StartFrom(adapted.Base());
  auto input = std::move(*aggregation).Finish();
  EXPECT_OK(input);
  return input->parts.at(0);
}

TEST(Stack, NextVersionsProduct_IsTheBestOfItsRankToTheMeanOfTheProducts) {
  for (const bool transposed : {false, true}) {
    const Adapted adapted{transposed};
    const auto base = adapted.Base();
    LowRankSum sum(Adapted::kRows, Adapted::kColumns);
    std::vector<double> others(Adapted::kElements);
    for (const TestUpdate& update : ThreeUpdates()) {
      std::vector<float> values = base->values;
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] += update.delta[i];
        others[i] += static_cast<double>(update.weight) / 6 * static_cast<double>(update.delta[i]);
      }
      const auto [a, b] = adapted.FactorsOf(values);
      sum.Add(static_cast<double>(update.weight) / 6, a, b);
    }
    const ServerInput::Part made = Stacked(adapted, 0);
    std::vector<float> next = base->values;
    for (size_t i = 0; i < next.size(); ++i) next[i] += made.mean[i];
    const auto [a, b] = adapted.FactorsOf(next);
    Matrix product(Adapted::kRows * Adapted::kColumns), expected(product.size());
    AddProduct(product, 1, a, b, Adapted::kRows, Adapted::kColumns);
    const LowRankSum::Factors best = sum.CutTo(Adapted::kRank);
    AddProduct(expected, 1, best.a, best.b, Adapted::kRows, Adapted::kColumns);
    for (size_t i = 0; i < product.size(); ++i) EXPECT_NEAR(product[i], expected[i], 1e-5);
    EXPECT_NEAR(made.dropped_share, best.dropped_share, 1e-9);
    EXPECT_GT(made.dropped_share, 0);
    // Other variables get the weighted mean.
    for (size_t i = 0; i < Adapted::kOther; ++i) {
      EXPECT_NEAR(made.mean[i], others[i], 1e-6);
      EXPECT_NEAR(made.mean[made.mean.size() - 1 - i], others[others.size() - 1 - i], 1e-6);
    }
  }
}

TEST(Stack, ASmallerRank_LeavesTheOtherColumnsZero) {
  const Adapted adapted{false};
  const auto base = adapted.Base();
  const ServerInput::Part made = Stacked(adapted, 2);
  std::vector<float> next = base->values;
  for (size_t i = 0; i < next.size(); ++i) next[i] += made.mean[i];
  const auto [a, b] = adapted.FactorsOf(next);
  for (int64_t row = 0; row < Adapted::kRows; ++row) EXPECT_EQ(a[static_cast<size_t>(row * 3 + 2)], 0);
  for (int64_t c = 0; c < Adapted::kColumns; ++c) EXPECT_EQ(b[static_cast<size_t>(2 * Adapted::kColumns + c)], 0);
  EXPECT_GT(made.dropped_share, Stacked(adapted, 3).dropped_share);
}

TEST(Stack, TheOrderOfArrival_ChangesNoBit) {
  const Adapted adapted{false};
  EXPECT_EQ(Stacked(adapted, 0, {0, 1, 2}).mean, Stacked(adapted, 0, {2, 0, 1}).mean);
}

TEST(Stack, WithoutABase_IsAnError) {
  const auto aggregation = Make(StackSpec(Adapted::kElements));
  TestUpdate update = ThreeUpdates()[0];
  ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
  EXPECT_THAT(Message(std::move(*aggregation).Finish().status()), HasSubstr("has no base version"));
}

// server.lora = "freeze_a": updates hold B alone, and the rule is the plain mean.
TEST(FrozenA, MeanOfB_GivesTheMeanOfTheProducts) {
  constexpr int64_t kRows = 6, kRank = 3, kColumns = 5;
  const std::vector<float> a = Normal(kRows * kRank, 70), b = Normal(kRank * kColumns, 71);
  const auto aggregation = Make(testing::Spec(kRank * kColumns));
  Matrix mean(kRows * kColumns);
  for (uint32_t k = 0; k < 3; ++k) {
    TestUpdate update{.task = fmt::format("task-{}", k), .delta = Normal(kRank * kColumns, k), .weight = 1 + k};
    std::vector<float> trained = b;
    for (size_t i = 0; i < b.size(); ++i) trained[i] += update.delta[i];
    AddProduct(mean, static_cast<double>(update.weight) / 6, a, trained, kRows, kColumns);
    ASSERT_OK(aggregation->Fold(update.view(), update.weights()));
  }
  ASSERT_OK_AND_ASSIGN(const ServerInput input, std::move(*aggregation).Finish());
  std::vector<float> next = b;
  for (size_t i = 0; i < b.size(); ++i) next[i] += input.parts[0].mean[i];
  Matrix product(mean.size());
  AddProduct(product, 1, a, next, kRows, kColumns);
  for (size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(product[i], mean[i], 1e-6);
}

}  // namespace
}  // namespace rivulet
