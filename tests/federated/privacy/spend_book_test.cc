// The total spend of attempts; no order of crashes takes a run over its budget.
#include "federated/privacy/spend_book.h"

#include <optional>
#include <random>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace rivulet::privacy {
namespace {

using testing::StatusIs;

constexpr double kDelta = 1e-5;
constexpr NoisedRounds kSampled = {
    .noise = NoiseLaw::kGaussian, .multiplier = 1.1, .sampling = SamplingKind::kPoisson, .rate = 0.1};

TEST(SpendBook, OneAfterTheOther_SpendWhatTheirCompositionDoes) {
  SpendBook book(Relation::kAddRemove, kDelta);
  EXPECT_EQ(book.Spent()->viewers, 0);
  NoisedRounds other = kSampled;
  other.multiplier = 2;
  for (int i = 0; i < 5; ++i) ASSERT_OK(book.Charge(kSampled));
  ASSERT_OK_AND_ASSIGN(const SpendBook::Epsilons with, book.SpentWith(other));
  ASSERT_OK(book.Charge(other));
  EXPECT_EQ(book.composition().rounds.size(), 2u);
  EXPECT_EQ(book.composition().total_rounds(), 6);
  Composition composition = {.rounds = {kSampled, other}};
  composition.rounds[0].count = 5;
  ASSERT_OK_AND_ASSIGN(const SpendBook::Epsilons spent, book.Spent());
  EXPECT_EQ(spent.viewers, EpsilonOf(composition, kDelta)->value);
  EXPECT_EQ(with.viewers, spent.viewers);
  for (NoisedRounds& rounds : composition.rounds) rounds.sampling = SamplingKind::kNone;
  EXPECT_EQ(spent.participants, EpsilonOf(composition, kDelta)->value);
  EXPECT_GT(spent.participants, 3 * spent.viewers) << "who knows who took part sees no sampling";
}

TEST(SpendBook, RoundsWithoutNoise_SpendEverything) {
  SpendBook book(Relation::kAddRemove, kDelta);
  ASSERT_OK(book.Charge({.multiplier = 0}));
  EXPECT_TRUE(std::isinf(book.Spent()->viewers));
}

TEST(SpendBook, WhatCannotBeAccounted_IsNotCharged) {
  SpendBook book(Relation::kReplaceOne, kDelta);
  EXPECT_THAT(book.Charge(kSampled), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(book.composition().total_rounds(), 0);
}

// Rows are what is durable. A run charges an attempt, writes its row and then reveals its version; it may be killed
// between any of these, and its next process knows the rows alone.
TEST(SpendBook, ThousandScheduleOfKills_NeverRevealMoreThanTheBudget) {
  constexpr double kBudget = 6;
  const NoisedRounds attempt = {.multiplier = 2};
  std::mt19937_64 random(7);
  int exhausted = 0, killed = 0;
  for (int schedule = 0; schedule < 1000; ++schedule) {
    std::vector<NoisedRounds> rows;
    int64_t revealed = 0;
    std::optional<SpendBook> book;
    for (int step = 0; step < 60; ++step) {
      if (!book) {
        book.emplace(Relation::kAddRemove, kDelta);
        for (const NoisedRounds& row : rows) ASSERT_OK(book->Charge(row));
      }
      if (book->SpentWith(attempt)->viewers > kBudget) {
        ++exhausted;
        break;
      }
      ASSERT_OK(book->Charge(attempt));
      const uint64_t fate = random() % 10;
      if (fate < 2) {  // before its row is there: nobody has seen anything
        book.reset();
        ++killed;
        continue;
      }
      rows.push_back(attempt);
      if (fate < 4) {  // after it: nobody saw this one either, and it counts
        book.reset();
        ++killed;
        continue;
      }
      if (fate < 6) continue;  // abandoned
      ++revealed;
    }
    Composition seen = {.rounds = {attempt}};
    seen.rounds[0].count = revealed;
    EXPECT_LE(EpsilonOf(seen, kDelta)->value, kBudget);
    SpendBook written(Relation::kAddRemove, kDelta);
    for (const NoisedRounds& row : rows) ASSERT_OK(written.Charge(row));
    EXPECT_LE(written.Spent()->viewers, kBudget) << schedule;
  }
  EXPECT_GT(exhausted, 900);
  EXPECT_GT(killed, 1000);
}

}  // namespace
}  // namespace rivulet::privacy
