// The 8-bit codec: its bytes, its zero mean error, the size of its error, and invalid bytes.
#include <array>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <thread>

#include "engine/program/program.h"
#include "federated/codecs/codec.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::RandomUpdates;

std::string Int8Bytes(const std::vector<float>& values, uint32_t draw = 0) {
  const auto codec = *Codec::Create("int8", std::ssize(values));
  const FloatRun run{values.data(), nullptr, std::ssize(values)};
  std::string bytes;
  Draws draws(StreamFor(2, "", Purpose::kSynthesize), draw);
  codec->Encode({&run, 1}, draws, bytes);
  EXPECT_EQ(std::ssize(bytes), codec->MaxBytes());
  EXPECT_OK(codec->Check(std::as_bytes(std::span(bytes))));
  return bytes;
}

std::vector<float> Int8Values(const std::string& bytes, size_t elements, size_t step = 4096) {
  const auto codec = *Codec::Create("int8", static_cast<int64_t>(elements));
  std::vector<float> values(elements);
  for (size_t first = 0; first < elements; first += step) {
    const size_t count = std::min(step, elements - first);
    codec->Decode(std::as_bytes(std::span(bytes)), static_cast<int64_t>(first),
                  std::span(values).subspan(first, count));
  }
  return values;
}

TEST(Int8, Bytes_AreAScaleAndThenLevels) {
  const std::string bytes = Int8Bytes({127, -0.5f, 0});
  EXPECT_EQ(bytes.substr(0, 5), std::string("\0\0\x80\x3f\x7f", 5));
  EXPECT_TRUE(bytes[5] == 0 || bytes[5] == -1);
  EXPECT_EQ(bytes[6], 0);
  EXPECT_EQ(Int8Bytes(std::vector<float>(256)).size(), 260u);
  EXPECT_EQ(Int8Bytes(std::vector<float>(257)).size(), 265u);
  EXPECT_EQ(Int8Values(Int8Bytes(std::vector<float>(257)), 257), std::vector<float>(257)) << "zeros are zeros";
}

// Over draws, the mean is the value, and the variance of a value between two levels is that of a coin: at most s² / 4.
TEST(Int8, ManyDraws_HaveTheValueForTheirMeanAndTheVarianceOfACoin) {
  constexpr int kDraws = 4000;
  std::vector<float> values = RandomUpdates(1, 300, 0.1f)[0].delta;
  values[0] = 1e-42f, values[299] = 0.3f;
  std::vector<double> sums(values.size()), squares(values.size());
  for (uint32_t draw = 0; draw < kDraws; ++draw) {
    const std::vector<float> got = Int8Values(Int8Bytes(values, draw), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const double error = static_cast<double>(got[i]) - values[i];
      sums[i] += error;
      squares[i] += error * error;
    }
  }
  for (const size_t begin : {0, 256}) {
    const size_t end = std::min(values.size(), begin + 256);
    double largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(static_cast<double>(values[i])));
    const double scale = largest / 127;
    for (size_t i = begin; i < end; ++i) {
      const double level = values[i] / scale, part = level - std::floor(level);
      EXPECT_NEAR(sums[i] / kDraws, 0, 5 * scale / 2 / std::sqrt(kDraws)) << i;
      EXPECT_NEAR(squares[i] / kDraws, part * (1 - part) * scale * scale, 0.05 * scale * scale) << i;
      EXPECT_LE(squares[i] / kDraws, 1.1 * scale * scale / 4) << i;
    }
  }
}

// Whatever the last bits of the largest value are, it is no level too far.
TEST(Int8, LargestOfABlock_IsTheLastLevel) {
  Draws draws(StreamFor(6, "", Purpose::kSynthesize), 0);
  for (int i = 0; i < 2000; ++i) {
    const auto largest = static_cast<float>(std::exp(20 * draws.Normal()));
    const float least = 127 * std::numeric_limits<float>::min();
    for (const float value : {largest, -largest, least, 90 * least}) {
      const float got = Int8Values(Int8Bytes({value}, static_cast<uint32_t>(i)), 1)[0];
      // Below the least, whose scale is the least normal number, all is zero.
      EXPECT_NEAR(got, std::abs(value) < least ? 0 : value, std::abs(static_cast<double>(value)) * 3e-7);
    }
  }
}

// Threads that run programs take a denormal for zero, and others do not: no scale is one, so that all decode the same.
TEST(BlockScale, ThatIsNoNormalNumber_IsZeroOnAnyThread) {
  const auto values_of = [](const std::string& codec_name, float value) {
    const auto codec = *Codec::Create(codec_name, 2);
    const std::vector<float> values = {value, -value};
    const FloatRun run{values.data(), nullptr, 2};
    Draws draws(StreamFor(6, "", Purpose::kSynthesize), 0);
    std::string bytes;
    codec->Encode({&run, 1}, draws, bytes);
    EXPECT_OK(codec->Check(std::as_bytes(std::span(bytes))));
    std::vector<float> got(2);
    codec->Decode(std::as_bytes(std::span(bytes)), 0, got);
    const float denormal = std::numeric_limits<float>::denorm_min();
    std::memcpy(bytes.data(), &denormal, sizeof(denormal));
    EXPECT_FALSE(codec->Check(std::as_bytes(std::span(bytes))).ok()) << "sent all the same";
    return got;
  };
  const float least = std::numeric_limits<float>::min();
  for (const auto& [codec, largest] :
       std::map<std::string, float>{{"int8", 126 * least}, {"int4", 6 * least}, {"sign", 0.9f * least}}) {
    SCOPED_TRACE(codec);
    ASSERT_EQ(std::fesetenv(FE_DFL_ENV), 0);  // a test before this one may have entered a worker thread
    EXPECT_EQ(values_of(codec, largest), std::vector<float>(2));
    const float twice = 2 * largest;  // here, as a worker would take the largest for zero
    const std::vector<float> above = values_of(codec, twice);
    EXPECT_EQ(above[0], -above[1]);
    EXPECT_GT(above[0], 0);
    std::thread([&] {
      EnterWorkerThread();
      EXPECT_EQ(values_of(codec, largest), std::vector<float>(2));
      EXPECT_EQ(values_of(codec, twice), above);
    }).join();
  }
}

TEST(Int8, AnyBlocksOfDecoding_GiveTheSameValues) {
  const std::vector<float> values = RandomUpdates(1, 1000, 0.1f)[0].delta;
  const std::string bytes = Int8Bytes(values);
  for (const size_t step : {1, 7, 256, 300}) {
    EXPECT_EQ(Int8Values(bytes, 1000, step), Int8Values(bytes, 1000)) << step;
  }
}

TEST(Int8, BlockWithAValueThatIsNoNumber_IsNone) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(600, 0.5f);
    values[300] = bad;
    const std::vector<float> got = Int8Values(Int8Bytes(values), 600);
    EXPECT_NEAR(got[255], 0.5, 0.5 / 127);
    EXPECT_TRUE(std::isnan(got[256]));
    EXPECT_TRUE(std::isnan(got[300]));
    EXPECT_NEAR(got[512], 0.5, 0.5 / 127);
  }
}

TEST(Int8, BytesOfAnotherForm_AreRefused) {
  const auto codec = *Codec::Create("int8", 300);
  std::string bytes = Int8Bytes(std::vector<float>(300, 0.5f));
  const auto refusal = [&] { return std::string(Message(codec->Check(std::as_bytes(std::span(bytes))))); };
  bytes[4 + 256 + 4 + 3] = static_cast<char>(0x80);
  EXPECT_THAT(refusal(), HasSubstr("its block of the values from 256 on has a scale of"));
  bytes[4 + 256 + 4 + 3] = 1;
  EXPECT_EQ(refusal(), "");
  bytes[3] = static_cast<char>(bytes[3] | 0x80);
  EXPECT_THAT(refusal(), HasSubstr("its block of the values from 0 on has a scale of -"));
  bytes.pop_back();
  EXPECT_EQ(refusal(), "it has 307 bytes where 300 int8 elements have 308");
}

}  // namespace
}  // namespace rivulet
