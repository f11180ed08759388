// Honest clients and an honest coordinator: sums are exact to the bit, for all dropouts.
#include "federated/secure/protocol.h"

#include <openssl/crypto.h>

#include <cmath>

#include "federated/secure/messages.h"
#include "tests/federated/secure/cohort_harness.h"

namespace rivulet::secure {
namespace {

using absl::StatusCode;
using testing::CohortOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;
using testing::TestCohort;

TEST(SecureProtocols, AreFoundByName) {
  EXPECT_THAT(SecureProtocolNames(), ElementsAre("arithmetic", "secagg_plus"));
  EXPECT_THAT(FindSecureProtocol("secagg"), StatusIs(StatusCode::kNotFound, HasSubstr("'secagg'")));
  ASSERT_OK_AND_ASSIGN(const SecureProtocol* protocol, FindSecureProtocol("secagg_plus"));
  EXPECT_TRUE(protocol->hides);
  ASSERT_OK_AND_ASSIGN(protocol, FindSecureProtocol("arithmetic"));
  EXPECT_FALSE(protocol->hides);
}

void ExpectSecureIsPlain(const CohortOptions& options, const std::map<size_t, int>& drops = {}) {
  SCOPED_TRACE(fmt::format("{} members, {} bits, {}", options.members, options.settings.word_bits, options.protocol));
  TestCohort cohort(options);
  ASSERT_OK_AND_ASSIGN(const std::vector<std::byte> sum, cohort.Run(drops));
  EXPECT_EQ(sum, cohort.PlainSum());
  EXPECT_EQ(cohort.server().BadShares().size(), 0u);
}

TEST(SecAggPlus, SecureIsPlainToTheBit) {
  for (const int members : {3, 4, 5, 8, 17, 40}) {
    for (const int bits : {32, 64}) {
      CohortOptions options{.members = members};
      options.settings.word_bits = bits;
      options.settings.max_colluding = members / 5;
      ExpectSecureIsPlain(options);
      options.protocol = "arithmetic";
      ExpectSecureIsPlain(options);
    }
  }
}

// A sparse graph, and words of several 64 KiB blocks.
TEST(SecAggPlus, SparseGraph_SecureIsPlainToTheBit) {
  CohortOptions options{.members = 120, .words = 20'001};
  options.settings.max_colluding = 3;
  const GraphShape shape = ChooseGraph(NeedsOf(options.settings, 120)).value();
  ASSERT_FALSE(shape.complete);
  ASSERT_LT(shape.neighbours, 50);
  ExpectSecureIsPlain(options, {{5, 1}, {17, 2}, {30, 2}, {41, 3}, {77, 4}, {99, 4}});
}

// With few neighbours each: their signatures and agreements are what such a cohort costs one machine.
TEST(SecAggPlus, AThousandMembers_SecureIsPlainToTheBit) {
  CohortOptions options{.members = 1000, .words = 16};
  options.settings.drop_out = 0.002;
  options.settings.max_colluding = 1;
  ASSERT_LT(ChooseGraph(NeedsOf(options.settings, 1000)).value().neighbours, 10);
  ExpectSecureIsPlain(options, {{150, 2}, {900, 3}});
}

// Seven members bear two drop-outs: all pairs, each at each step.
TEST(SecAggPlus, AllPairsDropOutAtAllSteps) {
  for (size_t first = 0; first < 7; ++first) {
    for (size_t second = first + 1; second < 7; ++second) {
      for (int first_step = 1; first_step < 5; ++first_step) {
        for (int second_step = 1; second_step < 5; ++second_step) {
          CohortOptions options{.members = 7, .words = 3};
          SCOPED_TRACE(fmt::format("{} at {}, {} at {}", first, first_step, second, second_step));
          ExpectSecureIsPlain(options, {{first, first_step}, {second, second_step}});
        }
      }
    }
  }
}

TEST(SecAggPlus, TooManyDropOuts_AbandonTheAttempt) {
  for (int step = 0; step < 5; ++step) {
    CohortOptions options{.members = 7, .words = 3};
    options.settings.min_cohort = options.settings.min_survivors = 5;
    TestCohort cohort(options);
    EXPECT_THAT(cohort.Run({{0, step}, {1, step}, {2, step}}), StatusIs(StatusCode::kFailedPrecondition)) << step;
  }
}

// Those who drop out between sending words and agreeing stay in the sum.
TEST(SecAggPlus, AClientThatDropsOutAfterItsWordsIsInTheSum) {
  TestCohort cohort({.members = 7, .words = 3});
  ASSERT_OK_AND_ASSIGN(const std::vector<std::byte> sum, cohort.Run({{2, 3}, {4, 2}}));
  const std::vector<std::string> survivors = cohort.server().Survivors();
  EXPECT_EQ(survivors.size(), 6u);
  EXPECT_EQ(std::count(survivors.begin(), survivors.end(), cohort.name(2)), 1);
  EXPECT_EQ(std::count(survivors.begin(), survivors.end(), cohort.name(4)), 0);
  EXPECT_EQ(sum, cohort.PlainSum());
}

// Its keys never reach the others, and another client may take its place; whoever is lost with its shares drops out.
TEST(SecAggPlus, AClientLostBeforeAStepCloses_HasNotAnsweredIt) {
  TestCohort cohort({.members = 7, .words = 3});
  ASSERT_OK_AND_ASSIGN(const std::string keys, cohort.client(6).Answer(0, ""));
  ASSERT_OK(cohort.Deliver(6, keys));
  for (size_t client = 0; client < 6; ++client) {
    ASSERT_OK_AND_ASSIGN(const std::string answer, cohort.AnswerOf(client));
    ASSERT_OK(cohort.Deliver(client, answer));
  }
  const auto keep = [&](size_t clients) {
    std::set<std::string, std::less<>> names;
    for (size_t client = 0; client < clients; ++client) names.insert(cohort.name(client));
    cohort.server().Keep(names);
  };
  keep(6);
  EXPECT_EQ(cohort.server().answers(), 6);
  ASSERT_OK(cohort.Deliver(6, keys)) << "the same keys may come again";
  keep(6);
  ASSERT_OK(cohort.server().Close());
  EXPECT_THAT(cohort.server().InputFor(cohort.name(6)), StatusIs(StatusCode::kNotFound));
  for (size_t client = 0; client < 6; ++client) {
    ASSERT_OK_AND_ASSIGN(const std::string answer, cohort.AnswerOf(client));
    ASSERT_OK(cohort.Deliver(client, answer));
  }
  keep(5);
  ASSERT_OK(cohort.server().Close());
  EXPECT_THAT(cohort.server().InputFor(cohort.name(5)), StatusIs(StatusCode::kNotFound));
  ASSERT_OK(cohort.RunUntil(5, {{5, 1}, {6, 0}}));
  ASSERT_OK(cohort.server().Unmask(cohort.sum()));
  EXPECT_EQ(cohort.server().Survivors().size(), 5u);
  EXPECT_EQ(cohort.sum(), cohort.PlainSum());
}

// The same numbers, the same model: a training and a measuring of one version share no key.
TEST(Contexts, OfMeasuringAndOfTraining_AreApart) {
  Session session = TestCohort({.members = 3}).Session();
  const Digest training = SessionContext(session);
  session.measures = true;
  EXPECT_NE(SessionContext(session), training);
}

TEST(SecAggPlus, CanUnmaskAsSoonAsEachSecretHasThresholdShares) {
  TestCohort cohort({.members = 7, .words = 3});
  ASSERT_OK(cohort.RunUntil(4));
  for (size_t client = 0; client < 5; ++client) {
    EXPECT_FALSE(cohort.server().CanUnmask()) << client;
    EXPECT_THAT(cohort.server().Close(), StatusIs(StatusCode::kFailedPrecondition));
    ASSERT_OK_AND_ASSIGN(const std::string answer, cohort.AnswerOf(client));
    ASSERT_OK(cohort.Deliver(client, answer));
  }
  EXPECT_TRUE(cohort.server().CanUnmask());
  ASSERT_OK(cohort.server().Unmask(cohort.sum()));
  EXPECT_EQ(cohort.sum(), cohort.PlainSum());
}

// What the secure heap holds is what clients hold: nothing after the last answer, and nothing after a refusal.
TEST(SecAggPlus, SecretsAreWipedAfterTheLastStepAndAfterARefusal) {
  TestCohort cohort({.members = 7, .words = 3});
  const size_t before = CRYPTO_secure_used();
  ASSERT_OK(cohort.RunUntil(1));
  EXPECT_GT(CRYPTO_secure_used(), before);
  ASSERT_OK(cohort.RunUntil(5));
  EXPECT_EQ(CRYPTO_secure_used(), before);

  TestCohort refused({.members = 7, .words = 3});
  ASSERT_OK(refused.RunUntil(2));
  const size_t held_by_all = CRYPTO_secure_used();
  ASSERT_THAT(refused.AnswerTo(2, "nonsense"), StatusIs(StatusCode::kInvalidArgument));
  const size_t held_by_one = held_by_all - CRYPTO_secure_used();
  EXPECT_GE(held_by_one, 2 * 32 + 32 + 6 * 64 + 7 * 64u) << "two keys, a seed, secrets of neighbours, shares";
}

// Masked words are uniform: chi-squared of their bytes, though the words themselves are all zero.
TEST(SecAggPlus, MaskedWordsLookRandom) {
  TestCohort cohort({.members = 3, .words = 20'000});
  ASSERT_OK(cohort.RunUntil(2));
  ASSERT_OK(cohort.AnswerOf(0).status());
  std::vector<double> counts(256);
  for (size_t i = 0; i < cohort.last_masked().size(); ++i) {
    ++counts[static_cast<size_t>(cohort.last_masked()[i] ^ cohort.words(0)[i])];
  }
  const double expected = static_cast<double>(cohort.last_masked().size()) / 256;
  double chi_squared = 0;
  for (const double count : counts) chi_squared += (count - expected) * (count - expected) / expected;
  EXPECT_LT(std::abs(chi_squared - 255) / std::sqrt(2 * 255.0), 6);
}

TEST(Messages, SizesAreBounded) {
  TestCohort cohort({.members = 9, .words = 3});
  const size_t holders = 9, neighbours = 8;
  for (int step = 0; step < 5; ++step) {
    if (step > 0) {
      ASSERT_OK_AND_ASSIGN(const std::string input, cohort.server().InputFor(cohort.name(1)));
      EXPECT_LE(input.size(), MostInputBytes(step, 9, holders));
    }
    for (size_t client = 0; client < 9; ++client) {
      ASSERT_OK_AND_ASSIGN(const std::string answer, cohort.AnswerOf(client));
      EXPECT_LE(answer.size(), MostAnswerBytes(step, holders));
      ASSERT_OK(cohort.Deliver(client, answer));
    }
    ASSERT_OK(cohort.server().Close());
  }
  const auto longer = [](size_t most) { return std::string(most + 1, '\0'); };
  EXPECT_THAT(ParseSecureKeys(longer(MostAnswerBytes(0, 0))),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("longer")));
  EXPECT_THAT(ParseSecureShares(longer(MostAnswerBytes(1, neighbours)), neighbours),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("longer")));
  EXPECT_THAT(ParseSealedShares(longer(MostInputBytes(2, 9, neighbours)), neighbours),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("longer")));
  EXPECT_THAT(ParseSurvivors(longer(MostInputBytes(3, 9, holders)), 9),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("longer")));
  EXPECT_THAT(ParseAgreement(longer(MostAnswerBytes(3, 0))),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("longer")));
  EXPECT_THAT(ParseAgreements(longer(MostInputBytes(4, 9, holders)), holders),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("longer")));
  EXPECT_THAT(ParseReveal(longer(MostAnswerBytes(4, holders)), holders),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("longer")));
}

TEST(Messages, SetsHaveOneFormOnly) {
  const std::vector<bool> set = {true, false, false, true, false, true, false, false, true, true};
  EXPECT_EQ(SetBytes(set), std::string("\x29\x03", 2));
  ASSERT_OK_AND_ASSIGN(const std::vector<bool> again, SetOf(SetBytes(set), 10, "a set"));
  EXPECT_EQ(again, set);
  EXPECT_THAT(SetOf(std::string("\x29\x07", 2), 10, "a set"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("a bit beyond its 10")));
  EXPECT_THAT(SetOf(std::string("\x29", 1), 10, "a set"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("1 bytes in place of 2")));
}

}  // namespace
}  // namespace rivulet::secure
