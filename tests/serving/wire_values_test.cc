#include "serving/wire_values.h"

#include <cstring>

#include "engine/tensor/float16.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ServedInput kPixels{"image", FeatureEncoding::kUint8, {DType::kFloat32, {2, 2}}, 1.0 / 255, 0};
const ServedInput kTokens{"tokens", FeatureEncoding::kInt64, {DType::kInt64, {3}}, 1, 10};

template <typename T>
std::string Raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}
template <typename T>
std::vector<T> Values(const BoundInput& bound, size_t count) {
  std::vector<T> values(count);
  std::memcpy(values.data(), bound.data, count * sizeof(T));
  return values;
}

TEST(WireValues, Float32_IsNotCopied) {
  const std::string raw = Raw<float>({1, 2, 3, 4, 5, 6, 7, 8});
  const auto bound = Bind(kPixels, {"image", DType::kFloat32, {2, 2, 2}, raw}, 64);
  EXPECT_OK(bound);
  EXPECT_EQ(bound->rows, 2);
  EXPECT_EQ(static_cast<const void*>(bound->data), raw.data());
}

TEST(WireValues, Pixels_AreScaledAsInTraining) {
  const std::string raw = {0, 51, char(102), char(255)};
  const auto bound = Bind(kPixels, {"image", DType::kUint8, {1, 2, 2}, raw}, 64);
  EXPECT_OK(bound);
  EXPECT_THAT(Values<float>(*bound, 4), ElementsAre(0.0f, 0.2f, 0.4f, 1.0f));
}

TEST(WireValues, BytesElements_AreOneExampleEach) {
  std::string raw;
  AppendBytesElement({"\0\x33\x66\xff", 4}, raw);
  AppendBytesElement({"\xff\xff\xff\xff", 4}, raw);
  const auto bound = Bind(kPixels, {"image", DType::kString, {2}, raw}, 64);
  EXPECT_OK(bound);
  EXPECT_THAT(Values<float>(*bound, 8), ElementsAre(0.0f, 0.2f, 0.4f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f));
}

TEST(WireValues, BytesElements_OfAnotherLength_AreRefused) {
  std::string longer, cut;
  AppendBytesElement("abc", longer);
  AppendBytesElement("abcde", longer);
  EXPECT_THAT(Bind(kPixels, {"image", DType::kString, {2}, longer}, 64).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("string 0")));
  AppendBytesElement("abcd", cut);
  cut.resize(6);
  EXPECT_THAT(Bind(kPixels, {"image", DType::kString, {1}, cut}, 64).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(WireValues, SixteenBits_AreWidenedWithoutLoss) {
  const std::string raw =
      Raw<uint16_t>({float16(1.5f).bits, float16(-2.0f).bits, float16(0.25f).bits, float16(65504.0f).bits});
  const auto bound = Bind(kPixels, {"image", DType::kFloat16, {1, 2, 2}, raw}, 64);
  EXPECT_OK(bound);
  EXPECT_THAT(Values<float>(*bound, 4), ElementsAre(1.5f, -2.0f, 0.25f, 65504.0f));
  const std::string brain = Raw<uint16_t>({0x3fc0, 0, 0, 0xc000});
  const auto wide = Bind(kPixels, {"image", DType::kBFloat16, {1, 2, 2}, brain}, 64);
  EXPECT_OK(wide);
  EXPECT_THAT(Values<float>(*wide, 4), ElementsAre(1.5f, 0.0f, 0.0f, -2.0f));
}

TEST(WireValues, Integers_WidenAndStayInTheVocabulary) {
  const std::string narrow = Raw<int32_t>({1, 9, 0});
  const auto bound = Bind(kTokens, {"tokens", DType::kInt32, {1, 3}, narrow}, 64);
  EXPECT_OK(bound);
  EXPECT_THAT(Values<int64_t>(*bound, 3), ElementsAre(1, 9, 0));
  for (const int64_t wrong : {int64_t{10}, int64_t{-1}, INT64_MAX, INT64_MIN})
    EXPECT_THAT(Bind(kTokens, {"tokens", DType::kInt64, {1, 3}, Raw<int64_t>({1, wrong, 2})}, 64).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 to 9")));
}

TEST(WireValues, AbsurdShapes_AreRefused) {
  const std::string raw = Raw<float>({1, 2, 3, 4});
  const std::vector<std::vector<int64_t>> wrong = {{},
                                                   {4},
                                                   {2, 2},
                                                   {0, 2, 2},
                                                   {-1, 2, 2},
                                                   {65, 2, 2},
                                                   {1, 4, 1},
                                                   {1, 2, 2, 1},
                                                   {INT64_MAX, 2, 2},
                                                   {int64_t{1} << 62, 2, 2},
                                                   {INT64_MIN, 2, 2},
                                                   {1, int64_t{1} << 32, int64_t{1} << 32}};
  for (const auto& shape : wrong)
    EXPECT_THAT(Bind(kPixels, {"image", DType::kFloat32, shape, raw}, 64).status(),
                StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(WireValues, WrongLengthOrType_SaysWhatIsTaken) {
  EXPECT_THAT(Bind(kPixels, {"image", DType::kFloat32, {1, 2, 2}, "abc"}, 64).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 bytes")));
  EXPECT_THAT(Bind(kPixels, {"image", DType::kFloat64, {1, 2, 2}, std::string(32, '\0')}, 64).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("FP32, FP16, BF16, UINT8 or BYTES")));
  EXPECT_THAT(Bind(kTokens, {"tokens", DType::kUint8, {1, 3}, "abc"}, 64).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("INT64 or INT32")));
  EXPECT_THAT(Bind(kTokens, {"tokens", DType::kString, {1, 3}, "abc"}, 64).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace rivulet
