// Secure sums as words: contributions are converted modulo 2^sum_bits, and return as the rule's own sums.
#include "federated/aggregation/sum_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "federated/aggregation/shared_places.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using testing::ErrorOf;
using testing::TestUpdate;

// A required part with weights and an optional one, a scalar by weight and a plain one.
AggregationSpec TwoParts(int sum_bits, int64_t updates) {
  AggregationSpec spec;
  spec.updates_per_version = updates;
  spec.max_weight = sum_bits == 32 ? 2 : 4096;
  spec.parts = {
      {.elements = 37, .value_bits = 0, .sum_bits = sum_bits},
      {.name = "more", .elements = 5, .value_bits = 0, .sum_bits = sum_bits, .weigh = "one", .optional = true}};
  spec.scalars = {{"train_loss", "examples"}, {"shift", "one"}};
  return spec;
}

AggregationSpec Secure(AggregationSpec spec) {
  spec.secure = {.protocol = "arithmetic", .min_cohort = 1, .min_survivors = 1};
  return spec;
}

// Every other update has the optional part. Scalars have both signs.
struct Drawn {
  TaskId task;
  std::vector<float> delta, more;
  Scalars scalars;
  Weights weights;
  std::vector<PartView> parts;

  UpdateView view() {
    parts = {{.name = "delta", .data = std::as_bytes(std::span(delta))}};
    if (!more.empty()) parts.push_back({.name = "more", .data = std::as_bytes(std::span(more))});
    return {task, 3, parts, scalars};
  }
};

std::vector<Drawn> Draw(const AggregationSpec& spec, int64_t count) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<Drawn> drawn;
  for (int64_t i = 0; i < count; ++i) {
    Drawn& update = drawn.emplace_back();
    update.task = fmt::format("task-{:05}", i);
    for (int64_t e = 0; e < spec.parts[0].elements; ++e) update.delta.push_back(value(random));
    for (int64_t e = 0; i % 2 == 0 && e < spec.parts[1].elements; ++e) update.more.push_back(value(random));
    update.scalars = {{"train_loss", value(random)}, {"shift", -1e9 * value(random)}};
    const auto weight = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(spec.max_weight));
    update.weights = {.parts = {weight, 1}, .scalars = {weight, 1}};
  }
  return drawn;
}

void ExpectSameSums(const Partial& found, const Partial& wanted) {
  EXPECT_EQ(found.base_version, wanted.base_version);
  EXPECT_EQ(found.tasks, wanted.tasks);
  EXPECT_EQ(found.scalars, wanted.scalars);
  ASSERT_EQ(found.parts.size(), wanted.parts.size());
  for (size_t p = 0; p < wanted.parts.size(); ++p) {
    EXPECT_TRUE(std::ranges::equal(found.parts[p].sums, wanted.parts[p].sums)) << p;
    EXPECT_TRUE(std::ranges::equal(found.parts[p].sums32, wanted.parts[p].sums32)) << p;
    EXPECT_EQ(found.parts[p].weight_sum, wanted.parts[p].weight_sum);
    EXPECT_EQ(found.parts[p].updates, wanted.parts[p].updates);
    EXPECT_EQ(found.parts[p].nonzeros, wanted.parts[p].nonzeros);
    EXPECT_EQ(found.parts[p].lost_nonzeros, wanted.parts[p].lost_nonzeros);
  }
}

TEST(SumWords, OfCohortsOfAnySize_AreThePlainSums) {
  for (const int sum_bits : {32, 64}) {
    for (const int64_t cohort : {1, 3, 10, 1000, 16384}) {
      SCOPED_TRACE(fmt::format("{} bits, {} updates", sum_bits, cohort));
      const AggregationSpec plain = TwoParts(sum_bits, cohort), secure = Secure(plain);
      const auto sums = testing::Make(plain), words = testing::Make(secure);
      for (Drawn& update : Draw(plain, cohort)) {
        ASSERT_OK_AND_ASSIGN(const auto taken, sums->Take(update.view(), update.weights));
        ASSERT_OK_AND_ASSIGN(const auto by_words, words->Take(update.view(), update.weights));
        ASSERT_EQ(by_words.norm, taken.norm);
      }
      ExpectSameSums(testing::Saved(*words), testing::Saved(*sums));
    }
  }
}

// Of a codec that shares places, the words are the values at these, and the sums are those of the updates as sent.
TEST(SumWords, OfValuesAtSharedPlaces_AreFewer_AndThePlainSums) {
  for (const int sum_bits : {32, 64}) {
    AggregationSpec plain = TwoParts(sum_bits, 10);
    for (PartSpec& part : plain.parts) {
      part.codec = "random_k_shared";
      part.codec_settings = {{"fraction", 0.25}};
      part.value_bits = 2;
    }
    const AggregationSpec secure = Secure(plain);
    EXPECT_EQ(SumWords(secure).words(), 10 + 2 + 2 * 16 + 2 * 8);  // ceil(37 / 4), ceil(5 / 4)
    const auto sums = testing::Make(plain), words = testing::Make(secure);
    for (Drawn& update : Draw(plain, 10)) {
      std::array<std::string, 2> sent;
      UpdateView view = update.view();
      for (size_t p = 0; p < view.parts.size(); ++p) {
        const std::vector<float>& values = p == 0 ? update.delta : update.more;
        const auto codec = *Codec::Create("random_k_shared", std::ssize(values), {{"fraction", 0.25}});
        const FloatRun run{values.data(), nullptr, std::ssize(values)};
        Draws draws = DrawsOfPlaces(3, p);
        codec->Encode({&run, 1}, draws, sent[p]);
        update.parts[p].data = std::as_bytes(std::span(sent[p]));
      }
      ASSERT_OK(sums->Fold(view, update.weights));
      ASSERT_OK(words->Fold(view, update.weights));
    }
    ExpectSameSums(testing::Saved(*words), testing::Saved(*sums));
    EXPECT_TRUE(std::ranges::any_of(testing::Saved(*words).parts[0].sums, [](int64_t sum) { return sum != 0; }) ||
                sum_bits == 32);
  }
}

// As workers and aggregators add them: every division of the updates has the same sums.
TEST(SumWords, InSeveralPartials_MergeToThePlainSums) {
  const AggregationSpec plain = TwoParts(64, 12), secure = Secure(plain);
  std::vector<Drawn> updates = Draw(plain, 12);
  const auto sums = testing::Make(plain);
  for (Drawn& update : updates) ASSERT_OK(sums->Fold(update.view(), update.weights));
  for (const size_t split : {1u, 5u, 11u}) {
    const auto first = testing::Make(secure), second = testing::Make(secure);
    for (size_t i = 0; i < updates.size(); ++i) {
      ASSERT_OK((i < split ? first : second)->Fold(updates[i].view(), updates[i].weights));
    }
    ASSERT_OK(first->Merge(second->Extract(3)));
    ExpectSameSums(testing::Saved(*first), testing::Saved(*sums));
    EXPECT_TRUE(testing::Saved(*second).empty());
    // And what the version is made from.
    ASSERT_OK_AND_ASSIGN(const ServerInput found, std::move(*first).Finish());
    EXPECT_EQ(found.updates, 12);
  }
}

TEST(SumWords, UpdatesThatAreRefusedOrRepeated_LeaveNothingBehind) {
  const AggregationSpec secure = Secure(TwoParts(64, 3));
  const auto words = testing::Make(secure), once = testing::Make(secure);
  std::vector<Drawn> updates = Draw(secure, 4);
  updates[1].delta[7] = std::nanf("");
  ASSERT_OK(words->Fold(updates[0].view(), updates[0].weights));
  EXPECT_THAT(ErrorOf(words->Take(updates[1].view(), updates[1].weights)),
              ::testing::HasSubstr("has NaN at element 7"));
  ASSERT_OK_AND_ASSIGN(const auto again, words->Take(updates[0].view(), updates[0].weights));
  EXPECT_EQ(again.norm, 0);
  ASSERT_OK(once->Fold(updates[0].view(), updates[0].weights));
  ExpectSameSums(testing::Saved(*words), testing::Saved(*once));
  // Also once the words were read, and of what was merged.
  ASSERT_OK(once->Fold(updates[2].view(), updates[2].weights));
  EXPECT_THAT(words->Merge(once->Extract(3)), testing::StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_OK(once->Fold(updates[2].view(), updates[2].weights));
  ASSERT_OK(words->Merge(once->Extract(3)));
  ASSERT_OK(words->Fold(updates[2].view(), updates[2].weights));
  EXPECT_EQ(testing::Saved(*words).tasks.size(), 2u);
  ASSERT_OK(words->Fold(updates[3].view(), updates[3].weights));
  updates[1].delta[7] = 0;
  EXPECT_THAT(words->Take(updates[1].view(), updates[1].weights),
              testing::StatusIs(absl::StatusCode::kResourceExhausted));
}

// Both orders of bytes and of numbers, in the smallest sum.
TEST(SumWords, HaveTheDocumentedOrder) {
  AggregationSpec spec = Secure({});
  spec.parts = {{.elements = 2, .value_bits = 0, .sum_bits = 32}};
  spec.scalars = {{"s", "one"}};
  spec.updates_per_version = 2;
  const SumWords words(spec);
  EXPECT_EQ(words.words(), 2 + 16 + 8);
  Partial partial = EmptyPartial(spec, 0);
  partial.parts[0].sums32 = {1, -2};
  partial.parts[0].weight_sum = 0x0001'0003;
  partial.parts[0].updates = 1;
  partial.parts[0].nonzeros = 2;
  partial.scalars[0] = WideSum(5, ~uint64_t{0});
  std::vector<std::byte> bytes(words.bytes());
  words.Add(partial, bytes);
  std::vector<uint32_t> found(bytes.size() / 4);
  std::memcpy(found.data(), bytes.data(), bytes.size());
  std::vector<uint32_t> wanted = {1, 0xFFFFFFFE, 3, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0};
  wanted.insert(wanted.end(), 4, 0xFFFF);
  EXPECT_EQ(found, wanted);
}

TEST(SecureSpec, IsRefusedByTheKeyThatDoesNotGoWithIt) {
  const auto error = [](AggregationSpec spec) { return std::string(Message(ValidateSpec(spec))); };
  const AggregationSpec good = Secure(TwoParts(64, 10));
  EXPECT_OK(ValidateSpec(good));
  AggregationSpec spec = good;
  spec.rule = "trimmed_mean";
  EXPECT_THAT(error(spec), ::testing::HasSubstr("the aggregation rule 'trimmed_mean' reads each update"));
  spec = good;
  spec.staleness_bits = kStalenessBits;
  EXPECT_THAT(error(spec), ::testing::HasSubstr("server.base is \"latest\""));
  spec = good;
  spec.updates_per_version = kMostSecureUpdates + 1;
  EXPECT_THAT(error(spec), ::testing::HasSubstr("server.clients_per_round is 16385; lower it"));
  spec = good;
  spec.secure.min_survivors = 11;
  EXPECT_THAT(error(spec), ::testing::HasSubstr("privacy.min_survivors is 11, and a round sums 1 to 10"));
  spec = good;
  spec.parts[1].sum_bits = 32;
  EXPECT_THAT(error(spec), ::testing::HasSubstr("words of 64 and of 32 bits"));
  spec = Secure(TwoParts(32, 10));
  EXPECT_OK(ValidateSpec(spec));
  spec.max_weight = 1 << 20;
  EXPECT_THAT(error(spec), ::testing::HasSubstr("Set server.sum_bits to 64 or server.weights to \"uniform\""));
}

TEST(SecureSpec, IsInTheDigest_AndAPlainSumsDigestIsNot) {
  const AggregationSpec plain = TwoParts(64, 10);
  AggregationSpec secure = Secure(plain);
  EXPECT_NE(secure.digest(), plain.digest());
  const Digest before = secure.digest();
  secure.secure.min_survivors = 2;
  EXPECT_NE(secure.digest(), before);
}

}  // namespace
}  // namespace rivulet
