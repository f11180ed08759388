#include "federated/codecs/codec.h"

#include <cmath>
#include <cstring>
#include <limits>

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

// Eight bits a value, rounded by chance: a block of 64 is its largest magnitude over 127 as float32, and 64 int8.
class TestInt8 : public Codec {
 public:
  static constexpr size_t kBlock = 64, kBytes = sizeof(float) + kBlock;

  explicit TestInt8(int64_t elements) : elements_(static_cast<size_t>(elements)) {}
  int64_t MaxBytes() const override {
    const size_t full = elements_ / kBlock, rest = elements_ % kBlock;
    return static_cast<int64_t>(full * kBytes + (rest > 0 ? sizeof(float) + rest : 0));
  }
  void Encode(std::span<const FloatRun> values, Draws& draws, std::string& out) const override {
    std::vector<float> block;
    for (const FloatRun& run : values) {
      for (int64_t i = 0; i < run.count; ++i) {
        block.push_back(run.minus == nullptr ? run.values[i] : run.values[i] - run.minus[i]);
        if (block.size() == kBlock) Flush(block, draws, out);
      }
    }
    if (!block.empty()) Flush(block, draws, out);
  }
  Status Check(std::span<const std::byte> bytes) const override {
    if (std::ssize(bytes) == MaxBytes()) return absl::OkStatus();
    return InvalidArgument("it has {} bytes where {} int8 elements have {}", bytes.size(), elements_, MaxBytes());
  }
  void Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t at = static_cast<size_t>(first) + i, block = at / kBlock;
      float scale;
      std::memcpy(&scale, bytes.data() + block * kBytes, sizeof(scale));
      out[i] = scale * static_cast<float>(static_cast<int8_t>(bytes[block * kBytes + sizeof(scale) + at % kBlock]));
    }
  }

 private:
  static void Flush(std::vector<float>& block, Draws& draws, std::string& out) {
    float largest = 0;
    for (const float value : block) largest = std::max(largest, std::fabs(value));
    const float scale = largest / 127;
    out.append(reinterpret_cast<const char*>(&scale), sizeof(scale));
    for (const float value : block) {
      const double wanted = scale > 0 ? value / scale : 0;
      out.push_back(static_cast<char>(std::clamp(std::floor(wanted + draws.Uniform()), -127.0, 127.0)));
    }
    block.clear();
  }
  const size_t elements_;
};

std::unique_ptr<const Codec> CreateTestInt8(int64_t elements) { return std::make_unique<TestInt8>(elements); }
RIVULET_CODEC("test_int8", "int8 of this test", CreateTestInt8);

AggregationSpec Int8Spec(int64_t elements) {
  AggregationSpec spec = Spec(elements);
  spec.parts[0].codec = "test_int8";
  return spec;
}

std::string Encoded(const Codec& codec, const std::vector<float>& values) {
  std::string bytes;
  const FloatRun run{values.data(), nullptr, std::ssize(values)};
  Draws draws(StreamFor(2, "", Purpose::kSynthesize), 0);
  codec.Encode({&run, 1}, draws, bytes);
  return bytes;
}

PartView PartOf(const std::string& bytes) { return {.name = "delta", .data = std::as_bytes(std::span(bytes))}; }

TEST(Codec, UnknownName_IsNotFoundWithTheNearest) {
  EXPECT_THAT(Codec::Create("f23", 1),
              StatusIs(absl::StatusCode::kNotFound, "there is no codec 'f23'. Did you mean 'f32'?"));
  AggregationSpec spec = Spec(1);
  spec.parts[0].codec = "test_int9";
  EXPECT_EQ(ErrorOf(Aggregation::Create(spec)), "there is no codec 'test_int9'. Did you mean 'test_int8'?");
}

TEST(Codec, F32_IsTheValuesAsTheyLie) {
  const auto codec = *Codec::Create("f32", 3000);
  std::vector<float> values(3000), minus(3000);
  for (size_t i = 0; i < 3000; ++i) values[i] = static_cast<float>(i) * 0.1f, minus[i] = static_cast<float>(i) * 0.3f;
  const FloatRun runs[] = {{values.data(), minus.data(), 2000}, {values.data() + 2000, nullptr, 1000}};
  std::string bytes;
  Draws draws(StreamFor(2, "", Purpose::kSynthesize), 0);
  codec->Encode(runs, draws, bytes);
  ASSERT_EQ(std::ssize(bytes), codec->MaxBytes());
  ASSERT_OK(codec->Check(std::as_bytes(std::span(bytes))));
  std::vector<float> again(10);
  codec->Decode(std::as_bytes(std::span(bytes)), 1995, again);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(again[i], i < 5 ? values[1995 + i] - minus[1995 + i] : values[1995 + i]) << i;
  }
  EXPECT_EQ(Message(codec->Check(std::as_bytes(std::span(bytes).first(8)))),
            "it has 8 bytes where 3000 float32 elements have 12000");
}

// Whatever made the values, a fold is a function of the values.
TEST(Codec, FoldOfEncodedBytes_IsTheFoldOfWhatTheyDecodeTo) {
  for (const size_t elements : {1, 63, 64, 65, 4096, 4097, 9001}) {
    const auto codec = *Codec::Create("test_int8", static_cast<int64_t>(elements));
    TestUpdate update = RandomUpdates(1, elements, 0.5f)[0];
    const std::string bytes = Encoded(*codec, update.delta);
    ASSERT_EQ(std::ssize(bytes), codec->MaxBytes());
    std::vector<float> decoded(elements);
    codec->Decode(std::as_bytes(std::span(bytes)), 0, decoded);
    EXPECT_TRUE(elements == 1 || decoded != update.delta);
    auto encoded = Make(Int8Spec(static_cast<int64_t>(elements))), plain = Make(Spec(static_cast<int64_t>(elements)));
    const PartView part = PartOf(bytes);
    const UpdateView view{update.task, 0, {&part, 1}, update.scalars};
    ASSERT_OK(encoded->Check(view, update.weights()));
    const auto taken = encoded->Take(view, update.weights());
    ASSERT_OK(taken);
    update.delta = decoded;
    const auto expected = plain->Take(update.view(), update.weights());
    ASSERT_OK(expected);
    EXPECT_EQ(taken->norm, expected->norm);
    const Partial a = encoded->Save().at(0), b = plain->Save().at(0);
    EXPECT_EQ(a.parts[0].sums, b.parts[0].sums);
    EXPECT_EQ(a.parts[0].nonzeros, b.parts[0].nonzeros);
  }
}

TEST(Codec, FoldOfEncodedBytes_NeedsNoTemporaryOfTheirSize) {
  const auto allocations = [](const AggregationSpec& spec, const std::string& bytes) {
    auto aggregation = Make(spec);
    const Scalars scalars;
    const PartView part = PartOf(bytes);
    const Weights weights{.parts = {1}};
    EXPECT_OK(aggregation->Fold({"the first, which makes the sums", 0, {&part, 1}, scalars}, weights));
    const UpdateView update{"the second", 0, {&part, 1}, scalars};
    return CountAllocations([&] { EXPECT_OK(aggregation->Fold(update, weights)); });
  };
  const std::vector<float> values(100'000, 0.5f);
  const auto codec = *Codec::Create("test_int8", 100'000);
  const int in_place = allocations(Spec(100'000), std::string(reinterpret_cast<const char*>(values.data()), 400'000));
  EXPECT_EQ(allocations(Int8Spec(100'000), Encoded(*codec, values)), in_place);
}

TEST(Codec, BadValueInALaterBlock_IsNamedAndLeavesNoTrace) {
  const auto codec = *Codec::Create("test_int8", 9001);
  auto updates = RandomUpdates(2, 9001, 0.5f);
  auto aggregation = Make(Int8Spec(9001));
  const std::string good = Encoded(*codec, updates[0].delta);
  const PartView part = PartOf(good);
  ASSERT_OK(aggregation->Fold({"good", 0, {&part, 1}, updates[0].scalars}, {.parts = {3}}));
  const std::string before = Bytes(*aggregation);
  for (const size_t block : {0, 63, 64, 100, 140}) {  // 64 blocks of the codec are one of the fold
    std::string bytes = Encoded(*codec, updates[1].delta);
    bytes[block * TestInt8::kBytes + 4] = 1;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bytes.data() + block * TestInt8::kBytes, &nan, sizeof(nan));
    const PartView bad = PartOf(bytes);
    EXPECT_THAT(aggregation->Fold({"bad", 0, {&bad, 1}, updates[1].scalars}, {.parts = {5}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(fmt::format("has NaN at element {} of its delta", block * TestInt8::kBlock))));
    ASSERT_EQ(Bytes(*aggregation), before) << block;
  }
}

TEST(Codec, BytesOrValuesOfAnotherForm_AreRefused) {
  auto aggregation = Make(Int8Spec(100));
  TestUpdate update = RandomUpdates(1, 100)[0];
  EXPECT_EQ(Message(aggregation->Check(update.view(), update.weights())),
            "the delta of task 'task-000': it has 400 bytes where 100 int8 elements have 108");
  const FloatRun run{update.delta.data(), nullptr, 100};
  const PartView part{.name = "delta", .runs = {&run, 1}};
  EXPECT_EQ(Message(aggregation->Check({"t", 0, {&part, 1}, update.scalars}, update.weights())),
            "the delta of task 't' is not encoded; the plan's codec of it is 'test_int8'");
}

TEST(Bf16, RoundsToTheNearestAndTiesToEven) {
  const float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  // One has seven bits behind its point; half a unit of them is 2^-8.
  const std::vector<std::pair<float, float>> cases = {{0, 0},
                                                      {1, 1},
                                                      {1 + 0x1p-8f, 1},
                                                      {1 + 0x1.8p-8f, 1 + 0x1p-7f},
                                                      {1 + 0x1.8p-7f, 1 + 0x1p-6f},
                                                      {-1 - 0x1.2p-8f, -1 - 0x1p-7f},
                                                      {0x1p-130f, 0x1p-130f},
                                                      {3e38f, 3.0040553e38f},
                                                      {3.4e38f, kInfinity},
                                                      {-kInfinity, -kInfinity}};
  std::vector<float> values;
  for (const auto& [value, wanted] : cases) values.push_back(value);
  values.push_back(kNan);
  const auto codec = *Codec::Create("bf16", std::ssize(values));
  EXPECT_FALSE(codec->transparent());
  const std::string bytes = Encoded(*codec, values);
  EXPECT_EQ(std::ssize(bytes), codec->MaxBytes());
  EXPECT_EQ(bytes.size(), 2 * values.size());
  ASSERT_OK(codec->Check(std::as_bytes(std::span(bytes))));
  EXPECT_FALSE(codec->Check(std::as_bytes(std::span(bytes).first(3))).ok());
  std::vector<float> decoded(values.size());
  codec->Decode(std::as_bytes(std::span(bytes)), 0, decoded);
  for (size_t i = 0; i < cases.size(); ++i) EXPECT_FLOAT_EQ(decoded[i], cases[i].second) << cases[i].first;
  EXPECT_TRUE(std::isnan(decoded.back()));
  float one = 0;
  codec->Decode(std::as_bytes(std::span(bytes)), 4, {&one, 1});
  EXPECT_EQ(one, decoded[4]);
}

}  // namespace
}  // namespace rivulet
