#include "federated/population/population.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "federated/random/lazy_permutation.h"
#include "federated/random/streams.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

Draws SomeDraws(uint32_t stream, Purpose purpose = Purpose::kSelect) { return {StreamFor(9, "", purpose, stream), 0}; }

// ---- The beginning of a permutation --------------------------------------------------------------------------------

TEST(LazyPermutation, ItsBeginning_IsThatOfTheDenseShuffle) {
  Draws sizes = SomeDraws(0, Purpose::kSynthesize);
  for (uint32_t turn = 0; turn < 10'000; ++turn) {
    const size_t n = sizes.Below(301), k = sizes.Below(n + 1);
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    Draws draws = SomeDraws(turn);
    LazyPermutation permutation(SomeDraws(turn), static_cast<int64_t>(n));
    for (size_t i = 0; i < k; ++i) {
      std::swap(order[i], order[i + draws.Below(n - i)]);
      ASSERT_EQ(permutation.Next(), order[i]) << "element " << i << " of " << n;
    }
  }
}

TEST(LazyPermutation, ToItsEnd_GivesEveryElementOnce) {
  for (const int64_t n : {0, 1, 2, 63, 64, 65, 5000}) {
    LazyPermutation permutation(SomeDraws(1), n);
    std::set<int64_t> given;
    while (const auto element = permutation.Next()) given.insert(*element);
    EXPECT_EQ(static_cast<int64_t>(given.size()), n);
    EXPECT_EQ(permutation.given(), n);
    EXPECT_TRUE(n == 0 || (*given.begin() == 0 && *given.rbegin() == n - 1));
    EXPECT_EQ(permutation.Next(), std::nullopt);
  }
}

TEST(LazyPermutation, OfMoreThanMemoryHolds_BeginsAsWell) {
  LazyPermutation permutation(SomeDraws(1), int64_t{1} << 50);
  std::set<int64_t> given;
  for (int i = 0; i < 1000; ++i) given.insert(*permutation.Next());
  EXPECT_EQ(given.size(), 1000u);
  EXPECT_LT(*given.rbegin(), int64_t{1} << 50);
}

// ---- Numbers -------------------------------------------------------------------------------------------------------

TEST(NumberedPopulation, NamesAreInByteOrderAndFindIsTheInverse) {
  for (const int64_t size : {1, 2, 10, 99'999, 100'000, 100'001, 100'010, 123'456, 1'000'000, 1'000'001}) {
    const auto population = NumberedPopulation(size);
    ASSERT_EQ(population->size(), size);
    const int64_t step = std::max<int64_t>(1, size / 5003);
    std::string last;
    for (int64_t rank = 0; rank < size; rank += step) {
      const std::string name = population->NameAt(rank);
      ASSERT_LT(last, name) << rank << " of " << size;
      ASSERT_EQ(population->Find(name), rank) << name << " of " << size;
      last = name;
    }
  }
}

TEST(NumberedPopulation, BeyondFiveDigits_IsWhatSortingGives) {
  constexpr int64_t kSize = 130'057;
  std::vector<std::string> names;
  for (int64_t i = 0; i < kSize; ++i) names.push_back(fmt::format("client-{:05}", i));
  std::sort(names.begin(), names.end());
  const auto population = NumberedPopulation(kSize);
  for (int64_t rank = 0; rank < kSize; ++rank) ASSERT_EQ(population->NameAt(rank), names[static_cast<size_t>(rank)]);
  const std::vector<int64_t> some = {130'056, 0, 100'000, 7};
  EXPECT_THAT(population->NamesAt(some), ElementsAre(names[130'056], names[0], names[100'000], names[7]));
}

TEST(NumberedPopulation, OtherNames_AreNobodys) {
  const auto population = NumberedPopulation(100'001);
  for (const char* name :
       {"", "client-", "client-1", "client-000001", "client-100001", "client-0000x", "client-00001 ", "klient-00001",
        "client--0001", "client-999999999999999999", "client-9999999999999999999999"}) {
    EXPECT_EQ(population->Find(name), std::nullopt) << name;
    EXPECT_THAT(population->Insert(name), StatusIs(absl::StatusCode::kFailedPrecondition)) << name;
  }
  EXPECT_EQ(*population->Insert("client-00007"), false);
  EXPECT_EQ(population->NameAt(1), "client-00001");
  EXPECT_EQ(NumberedPopulation(7)->NameAt(6), "client-00006");
}

// ---- Names ---------------------------------------------------------------------------------------------------------

TEST(OpenPopulation, AnyOrderOfArrival_GivesTheSameRanks) {
  constexpr int kNames = 7000;
  std::vector<std::string> names;
  for (int i = 0; i < kNames; ++i) names.push_back(fmt::format("{}-{}", i % 7 == 0 ? "hôpital" : "phone", i * 31));
  std::vector<std::string> sorted = names;
  std::sort(sorted.begin(), sorted.end());
  for (uint32_t turn = 0; turn < 3; ++turn) {
    const auto population = OpenPopulation(kNames);
    if (turn == 1) names = sorted;
    if (turn == 2) std::reverse(names.begin(), names.end());
    Draws draws = SomeDraws(turn, Purpose::kSynthesize);
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(population->Find(names[i]), std::nullopt);
      EXPECT_EQ(*population->Insert(names[i]), true);
      EXPECT_EQ(*population->Insert(names[draws.Below(i + 1)]), false);
    }
    ASSERT_EQ(population->size(), kNames);
    for (int64_t rank = 0; rank < kNames; ++rank) {
      ASSERT_EQ(population->NameAt(rank), sorted[static_cast<size_t>(rank)]);
      ASSERT_EQ(population->Find(sorted[static_cast<size_t>(rank)]), rank);
    }
    EXPECT_THAT(population->Insert("one more"),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         "the 7000 clients that this run has room for have joined; 'one more' is one too many"));
  }
}

TEST(OpenPopulation, WhileItGrows_RanksAreThoseOfASet) {
  const auto population = OpenPopulation(5000);
  std::set<std::string> reference;
  Draws draws = SomeDraws(3, Purpose::kSynthesize);
  for (int i = 0; i < 3000; ++i) {
    const std::string name = fmt::format("{:x}", draws.Below(100'000));
    EXPECT_EQ(*population->Insert(name), reference.insert(name).second);
    if (i % 100 != 99) continue;
    int64_t rank = 0;
    std::vector<int64_t> ranks;
    for (const std::string& expected : reference) {
      ranks.push_back(rank);
      ASSERT_EQ(population->NameAt(rank++), expected);
    }
    ASSERT_EQ(population->size(), rank);
    ASSERT_THAT(population->NamesAt(ranks), ElementsAreArray(reference));
  }
}

TEST(OpenPopulation, LongNames_FitUpTo255Bytes) {
  const auto population = OpenPopulation(10);
  EXPECT_EQ(*population->Insert(std::string(255, 'x')), true);
  EXPECT_EQ(population->NameAt(0), std::string(255, 'x'));
  EXPECT_THAT(population->Insert(std::string(256, 'x')),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("256")));
  EXPECT_EQ(population->size(), 1);
}

TEST(FixedPopulation, TakesNobodyElse) {
  const std::vector<std::string> names = {"oslo", "bergen", "tromsø"};
  const auto population = FixedPopulation(names);
  ASSERT_OK(population);
  std::vector<std::string> members;
  for (int64_t rank = 0; rank < (*population)->size(); ++rank) members.push_back((*population)->NameAt(rank));
  EXPECT_THAT(members, ElementsAre("bergen", "oslo", "tromsø"));
  EXPECT_EQ(*(*population)->Insert("oslo"), false);
  EXPECT_THAT((*population)->Insert("paris"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                       "'paris' is not one of the 3 clients that this run expects"));
  const std::vector<std::string> twice = {"oslo", "bergen", "oslo"};
  EXPECT_THAT(FixedPopulation(twice),
              StatusIs(absl::StatusCode::kInvalidArgument, "the client 'oslo' is listed twice"));
}

}  // namespace
}  // namespace rivulet
