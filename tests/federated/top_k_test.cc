// The codec of the largest values: the selection, its bytes, and refusal of all other bytes.
// them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "federated/codecs/codec.h"
#include "tests/engine/program/allocations.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using testing::Bytes;
using testing::CountAllocations;
using testing::ErrorOf;
using ::testing::HasSubstr;
using testing::Make;
using testing::RandomUpdates;
using testing::Spec;
using testing::StatusIs;
using testing::TestUpdate;

std::unique_ptr<const Codec> TopKOf(int64_t elements, double fraction) {
  auto codec = Codec::Create("top_k", elements, {{"fraction", fraction}});
  EXPECT_OK(codec);
  return *std::move(codec);
}

std::string EncodedBy(const Codec& codec, std::span<const FloatRun> runs) {
  std::string bytes;
  Draws draws(StreamFor(2, "", Purpose::kSynthesize), 0);
  codec.Encode(runs, draws, bytes);
  EXPECT_EQ(std::ssize(bytes), codec.MaxBytes());
  EXPECT_OK(codec.Check(std::as_bytes(std::span(bytes))));
  return bytes;
}
std::string EncodedBy(const Codec& codec, const std::vector<float>& values) {
  const FloatRun run{values.data(), nullptr, std::ssize(values)};
  return EncodedBy(codec, {&run, 1});
}

std::vector<float> DecodedBy(const Codec& codec, const std::string& bytes, size_t elements, size_t block) {
  std::vector<float> values(elements, -7);
  for (size_t first = 0; first < elements; first += block) {
    const size_t count = std::min(block, elements - first);
    codec.Decode(std::as_bytes(std::span(bytes)), static_cast<int64_t>(first), std::span(values).subspan(first, count));
  }
  return values;
}

AggregationSpec TopKSpec(int64_t elements, double fraction) {
  AggregationSpec spec = Spec(elements);
  spec.parts[0].codec = "top_k";
  spec.parts[0].codec_settings = {{"fraction", fraction}};
  return spec;
}

PartView DeltaOf(const std::string& bytes) { return {.name = "delta", .data = std::as_bytes(std::span(bytes))}; }

std::string Words(const std::vector<uint32_t>& indices, const std::vector<float>& values) {
  std::string bytes(reinterpret_cast<const char*>(indices.data()), 4 * indices.size());
  return bytes.append(reinterpret_cast<const char*>(values.data()), 4 * values.size());
}

TEST(TopK, Bytes_AreIndicesAndThenValues) {
  const auto codec = TopKOf(4, 0.5);
  EXPECT_EQ(EncodedBy(*codec, {0.5f, -2, 0, 1}), std::string("\1\0\0\0\3\0\0\0\0\0\0\xc0\0\0\x80\x3f", 16));
  EXPECT_FALSE(codec->transparent());
}

TEST(TopK, Fraction_RoundsUpAndIsOneValueAtLeast) {
  EXPECT_EQ(TopKOf(10, 0.3)->MaxBytes(), 8 * 3);
  EXPECT_EQ(TopKOf(10, 0.31)->MaxBytes(), 8 * 4);
  EXPECT_EQ(TopKOf(10, 1e-9)->MaxBytes(), 8);
  EXPECT_EQ(TopKOf(10, 1)->MaxBytes(), 8 * 10);
  EXPECT_THAT(ErrorOf(Codec::Create("top_k", 10, {{"fraction", 1.5}})), HasSubstr("codec 'top_k'"));
  EXPECT_THAT(ErrorOf(Codec::Create("top_k", (int64_t{1} << 32) + 1)), HasSubstr("has no indices of 32 bits"));
}

// Against sorting, with many equal magnitudes among them.
TEST(TopK, LargestInMagnitude_AreSentAndOfEqualOnesTheFirst) {
  for (const size_t elements : {1, 2, 100, 4097, 20'000}) {
    for (const double fraction : {0.001, 0.1, 0.5, 1.0}) {
      SCOPED_TRACE(fmt::format("{} {}", elements, fraction));
      Draws draws(StreamFor(4, "", Purpose::kSynthesize), static_cast<uint32_t>(elements));
      std::vector<float> values(elements), minus(elements);
      for (size_t i = 0; i < elements; ++i) {
        values[i] = static_cast<float>(std::exp(6 * draws.Normal()) * (draws.Below(2) == 0 ? 1 : -1));
        if (draws.Below(3) == 0) values[i] = static_cast<float>(draws.Below(3)) - 1;
        if (i >= elements / 2) minus[i] = static_cast<float>(draws.Normal());
      }
      const auto half = static_cast<int64_t>(elements / 2);
      const FloatRun runs[] = {{values.data(), nullptr, half},
                               {values.data() + half, minus.data() + half, static_cast<int64_t>(elements) - half}};
      const auto codec = TopKOf(static_cast<int64_t>(elements), fraction);
      const std::string bytes = EncodedBy(*codec, runs);
      for (size_t i = 0; i < elements; ++i) values[i] -= minus[i];
      std::vector<size_t> order(elements);
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, [&](size_t a, size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
      std::vector<float> wanted(elements);
      for (size_t i = 0; i < bytes.size() / 8; ++i) wanted[order[i]] = values[order[i]];
      for (const size_t block : {1, 64, 4096}) EXPECT_EQ(DecodedBy(*codec, bytes, elements, block), wanted) << block;
    }
  }
}

TEST(TopK, BytesOfAnotherForm_AreRefused) {
  const auto codec = TopKOf(10, 0.3);
  const auto refusal = [&](const std::string& bytes) {
    return std::string(Message(codec->Check(std::as_bytes(std::span(bytes)))));
  };
  EXPECT_EQ(refusal(Words({1, 2, 9}, {1, 2, 3})), "");
  EXPECT_EQ(refusal(Words({1, 2}, {1, 2})), "it has 16 bytes where 3 of 10 values with their indices have 24");
  EXPECT_EQ(refusal(Words({1, 2, 3, 4}, {1, 2, 3, 4})),
            "it has 32 bytes where 3 of 10 values with their indices have 24");
  EXPECT_EQ(refusal(Words({1, 1, 9}, {1, 2, 3})), "its index 1 after 1, of 10 values, is invalid: indices must ascend");
  EXPECT_EQ(refusal(Words({2, 1, 9}, {1, 2, 3})), "its index 1 after 2, of 10 values, is invalid: indices must ascend");
  EXPECT_EQ(refusal(Words({1, 2, 10}, {1, 2, 3})),
            "its index 10 after 2, of 10 values, is invalid: indices must ascend");
  EXPECT_EQ(refusal(Words({1, 2, 0xFFFFFFFF}, {1, 2, 3})),
            "its index 4294967295 after 2, of 10 values, is invalid: indices must ascend");
}

TEST(TopK, ValueThatIsNoNumber_IsSentAndRefusedWithoutATrace) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    const auto codec = TopKOf(9001, 0.01);
    auto updates = RandomUpdates(2, 9001, 0.5f);
    auto aggregation = Make(TopKSpec(9001, 0.01));
    const std::string good = EncodedBy(*codec, updates[0].delta);
    const PartView part = DeltaOf(good);
    ASSERT_OK(aggregation->Fold({"good", 0, {&part, 1}, updates[0].scalars}, {.parts = {3}}));
    const std::string before = Bytes(*aggregation);
    updates[1].delta[7000] = bad;
    const std::string bytes = EncodedBy(*codec, updates[1].delta);
    const PartView other = DeltaOf(bytes);
    EXPECT_THAT(aggregation->Fold({"bad", 0, {&other, 1}, updates[1].scalars}, {.parts = {5}}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at element 7000 of its delta")));
    EXPECT_EQ(Bytes(*aggregation), before);
  }
}

// Only what is sent is touched, and no bit of what comes of it shows that, whatever the values: near the bound, lost to
// rounding, denormal, or a zero that was sent.
TEST(TopK, Fold_IsThatOfTheValuesAndOfAllOfThemTheUnencodedUpdates) {
  for (const auto& [fraction, sum_bits] :
       std::vector<std::pair<double, int>>{{0.01, 64}, {0.4, 64}, {1.0, 64}, {0.4, 32}}) {
    SCOPED_TRACE(fmt::format("{} {}", fraction, sum_bits));
    TestUpdate update = RandomUpdates(1, 9001, 0.5f)[0];
    update.weight = std::min<int64_t>(update.weight, 60'000);
    for (size_t i = 0; i < update.delta.size(); ++i) {
      if (i % 7 == 3) update.delta[i] = 0;
      if (i % 7 == 5) update.delta[i] *= 1e-12f;
      if (i % 97 == 8) update.delta[i] = i % 2 == 0 ? 1024.0f : -1e-41f;
    }
    const auto codec = TopKOf(9001, fraction);
    const std::string bytes = EncodedBy(*codec, update.delta);
    const std::vector<float> values = DecodedBy(*codec, bytes, 9001, 4096);
    if (fraction == 1) {
      EXPECT_EQ(values, update.delta);
    }
    AggregationSpec sparse = TopKSpec(9001, fraction), dense = Spec(9001);
    sparse.parts[0].sum_bits = dense.parts[0].sum_bits = sum_bits;
    if (sum_bits == 32) sparse.max_weight = dense.max_weight = 60'000, update.weight = 900;
    auto encoded = Make(sparse), plain = Make(dense);
    const PartView part = DeltaOf(bytes);
    const auto taken = encoded->Take({update.task, 0, {&part, 1}, update.scalars}, update.weights());
    ASSERT_OK(taken);
    update.delta = values;
    const auto expected = plain->Take(update.view(), update.weights());
    ASSERT_OK(expected);
    EXPECT_EQ(taken->norm, expected->norm);
    const Partial a = testing::Saved(*encoded), b = testing::Saved(*plain);
    EXPECT_EQ(a.parts[0].sums, b.parts[0].sums);
    EXPECT_EQ(a.parts[0].sums32, b.parts[0].sums32);
    EXPECT_EQ(a.parts[0].nonzeros, b.parts[0].nonzeros);
    EXPECT_EQ(a.parts[0].lost_nonzeros, b.parts[0].lost_nonzeros);
    EXPECT_NE(a.spec, b.spec) << "which other codecs are not to join";
  }
}

TEST(TopK, Fold_NeedsNoTemporaryOfThePartsSize) {
  const auto allocations = [](const AggregationSpec& spec, const std::string& bytes) {
    auto aggregation = Make(spec);
    const Scalars scalars;
    const PartView part = DeltaOf(bytes);
    EXPECT_OK(aggregation->Fold({"the first, which makes the sums", 0, {&part, 1}, scalars}, {.parts = {1}}));
    const UpdateView update{"the second", 0, {&part, 1}, scalars};
    const Weights weights{.parts = {1}};
    return CountAllocations([&] { EXPECT_OK(aggregation->Fold(update, weights)); });
  };
  const std::vector<float> values(100'000, 0.5f);
  const auto codec = TopKOf(100'000, 0.1);
  const int in_place = allocations(Spec(100'000), std::string(reinterpret_cast<const char*>(values.data()), 400'000));
  EXPECT_EQ(allocations(TopKSpec(100'000, 0.1), EncodedBy(*codec, values)), in_place);
}

}  // namespace
}  // namespace rivulet
