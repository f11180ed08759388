// Low-bit codecs: f16, int4, sign and eden. Their bytes, their zero mean error or contraction, the size of their error,
// and invalid bytes.
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "federated/codecs/codec.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::RandomUpdates;

std::string BytesBy(const std::string& name, const std::vector<float>& values, uint32_t draw = 0) {
  const auto codec = *Codec::Create(name, std::ssize(values));
  const FloatRun run{values.data(), nullptr, std::ssize(values)};
  std::string bytes = "before";
  Draws draws(StreamFor(3, "", Purpose::kSynthesize), draw);
  codec->Encode({&run, 1}, draws, bytes);
  bytes = bytes.substr(6);
  EXPECT_EQ(std::ssize(bytes), codec->MaxBytes());
  EXPECT_OK(codec->Check(std::as_bytes(std::span(bytes))));
  return bytes;
}

std::vector<float> ValuesBy(const std::string& name, const std::string& bytes, size_t elements, size_t step = 4096) {
  const auto codec = *Codec::Create(name, static_cast<int64_t>(elements));
  std::vector<float> values(elements);
  for (size_t first = 0; first < elements; first += step) {
    const size_t count = std::min(step, elements - first);
    codec->Decode(std::as_bytes(std::span(bytes)), static_cast<int64_t>(first),
                  std::span(values).subspan(first, count));
  }
  return values;
}

std::vector<float> ThereAndBack(const std::string& name, const std::vector<float>& values, uint32_t draw = 0) {
  return ValuesBy(name, BytesBy(name, values, draw), values.size());
}

double SquareOf(const std::vector<float>& x) {
  double square = 0;
  for (const float value : x) square += static_cast<double>(value) * value;
  return square;
}

double SquareBetween(const std::vector<float>& a, const std::vector<float>& b) {
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) square += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return square;
}

std::string Refusal(const std::string& name, int64_t elements, const std::string& bytes) {
  return std::string(Message((*Codec::Create(name, elements))->Check(std::as_bytes(std::span(bytes)))));
}

const char* const kLowBitCodecs[] = {"f16",   "int4",  "sign",  "eden1", "eden2",
                                     "eden3", "eden4", "qsgd2", "qsgd4", "qsgd8"};

TEST(LowBitCodecs, AnyBlocksOfDecoding_GiveTheSameValues) {
  for (const char* name : kLowBitCodecs) {
    for (const size_t elements : {1, 3, 64, 65, 5000}) {
      const std::vector<float> values = RandomUpdates(1, elements, 0.1f)[0].delta;
      const std::string bytes = BytesBy(name, values);
      const std::vector<float> whole = ValuesBy(name, bytes, elements);
      for (const size_t step : {7, 64, 300})
        EXPECT_EQ(ValuesBy(name, bytes, elements, step), whole) << name << elements;
    }
  }
}

TEST(LowBitCodecs, Zeros_AreZeros) {
  for (const char* name : kLowBitCodecs) EXPECT_EQ(SquareOf(ThereAndBack(name, std::vector<float>(4200))), 0) << name;
}

TEST(LowBitCodecs, ValueThatIsNoNumber_IsNotHidden) {
  for (const char* name : kLowBitCodecs) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> values(5000, 0.5f);
      values[4500] = bad;
      EXPECT_FALSE(std::isfinite(ThereAndBack(name, values)[4500])) << name;
    }
  }
}

TEST(LowBitCodecs, BytesOfAnotherForm_AreRefused) {
  for (const char* name : kLowBitCodecs) EXPECT_THAT(Refusal(name, 300, "short"), HasSubstr("it has 5 bytes")) << name;
  const std::vector<float> values(301, 0.5f);
  std::string bytes = BytesBy("int4", values);
  bytes[4] = 0x0F;
  EXPECT_THAT(Refusal("int4", 301, bytes), HasSubstr("its block of the values from 0 on has a scale of"));
  bytes = BytesBy("sign", values);
  bytes.back() = static_cast<char>(0x80);
  EXPECT_THAT(Refusal("sign", 301, bytes), HasSubstr("more signs than values"));
  bytes = BytesBy("eden2", values);
  bytes[8 + 3] = static_cast<char>(bytes[8 + 3] | 0x80);
  EXPECT_THAT(Refusal("eden2", 301, bytes), HasSubstr("has a scale of -"));
}

TEST(F16, RoundsToElevenBitsAndNoFurtherThan65504) {
  const std::vector<float> got = ThereAndBack("f16", {1 + 0x1p-11f, 1 + 3 * 0x1p-11f, -65504, 65520, 0x1p-24f});
  EXPECT_THAT(std::vector<float>(got.begin(), got.begin() + 3), ::testing::ElementsAre(1, 1 + 2 * 0x1p-10f, -65504));
  EXPECT_TRUE(std::isinf(got[3]));
  EXPECT_EQ(got[4], 0x1p-24f);
}

TEST(Int4, Bytes_AreAScaleAndThenTwoLevelsEach) {
  const std::string bytes = BytesBy("int4", {7, -0.5f, 0});
  EXPECT_EQ(bytes.substr(0, 4), std::string("\0\0\x80\x3f", 4));
  EXPECT_TRUE(bytes[4] == 0x7F || bytes[4] == static_cast<char>(0x8F));
  EXPECT_EQ(bytes[5], static_cast<char>(0x88));
  EXPECT_EQ(BytesBy("int4", std::vector<float>(64)).size(), 36u);
  EXPECT_EQ(BytesBy("int4", std::vector<float>(65)).size(), 41u);
}

// Over draws, the mean is the value, and the variance of a value between two levels is that of a coin: at most s² / 4.
TEST(Int4, ManyDraws_HaveTheValueForTheirMeanAndTheVarianceOfACoin) {
  constexpr int kDraws = 4000;
  const std::vector<float> values = RandomUpdates(1, 100, 0.1f)[0].delta;
  std::vector<double> sums(values.size()), squares(values.size());
  for (uint32_t draw = 0; draw < kDraws; ++draw) {
    const std::vector<float> got = ThereAndBack("int4", values, draw);
    for (size_t i = 0; i < values.size(); ++i) {
      const double error = static_cast<double>(got[i]) - values[i];
      sums[i] += error;
      squares[i] += error * error;
    }
  }
  for (const size_t begin : {0, 64}) {
    const size_t end = std::min(values.size(), begin + 64);
    double largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(static_cast<double>(values[i])));
    const double scale = largest / 7;
    for (size_t i = begin; i < end; ++i) {
      const double level = values[i] / scale, part = level - std::floor(level);
      EXPECT_NEAR(sums[i] / kDraws, 0, 5 * scale / 2 / std::sqrt(kDraws)) << i;
      EXPECT_NEAR(squares[i] / kDraws, part * (1 - part) * scale * scale, 0.05 * scale * scale) << i;
    }
  }
}

TEST(Qsgd, Bytes_AreANormAndThenLevelsFromTheLowestBits) {
  const std::string bytes = BytesBy("qsgd4", {3, 0, -4});
  EXPECT_EQ(bytes.substr(0, 4), std::string("\0\0\xa0\x40", 4));
  const int first = bytes[4] & 15, third = bytes[5] & 15;  // 8 + 7 · 3 / 5 and 8 − 7 · 4 / 5, up or down
  EXPECT_TRUE(first == 12 || first == 13) << first;
  EXPECT_EQ(bytes[4] >> 4 & 15, 8);
  EXPECT_TRUE(third == 2 || third == 3) << third;
  EXPECT_EQ(bytes[5] >> 4 & 15, 8) << "left over";
  EXPECT_EQ(BytesBy("qsgd2", {1})[4], static_cast<char>(0b10101011));
  for (const auto& [name, whole] : std::map<std::string, size_t>{{"qsgd2", 68}, {"qsgd4", 132}, {"qsgd8", 260}}) {
    EXPECT_EQ(BytesBy(name, std::vector<float>(256)).size(), whole) << name;
    EXPECT_EQ(BytesBy(name, std::vector<float>(257)).size(), whole + 5) << name;
    std::string beyond = BytesBy(name, std::vector<float>(257, 0.5f));
    beyond[4] = 0;
    EXPECT_THAT(Refusal(name, 257, beyond), HasSubstr("or a level of -"));
  }
}

// Lemma 3.1: the mean is the value, and the error that of coins between levels, within its bound.
TEST(Qsgd, ManyDraws_HaveTheValueForTheirMeanAndTheErrorOfTheLemma) {
  constexpr int kDraws = 4000;
  const std::vector<float> values = RandomUpdates(1, 300, 0.1f)[0].delta;
  for (const auto& [name, levels] : std::map<std::string, double>{{"qsgd2", 1}, {"qsgd4", 7}, {"qsgd8", 127}}) {
    std::vector<double> sums(values.size()), squares(values.size());
    for (uint32_t draw = 0; draw < kDraws; ++draw) {
      const std::vector<float> got = ThereAndBack(name, values, draw);
      for (size_t i = 0; i < values.size(); ++i) {
        const double error = static_cast<double>(got[i]) - values[i];
        sums[i] += error;
        squares[i] += error * error;
      }
    }
    for (const size_t begin : {0, 256}) {
      const std::vector<float> block(
          values.begin() + static_cast<std::ptrdiff_t>(begin),
          values.begin() + static_cast<std::ptrdiff_t>(std::min(values.size(), begin + 256)));
      const double norm = std::sqrt(SquareOf(block)), width = norm / levels, n = static_cast<double>(block.size());
      double error = 0, expected = 0;
      for (size_t k = 0; k < block.size(); ++k) {
        const double level = block[k] / width, part = level - std::floor(level);
        EXPECT_NEAR(sums[begin + k] / kDraws, 0, 5 * width / 2 / std::sqrt(kDraws)) << name << " " << begin + k;
        error += squares[begin + k] / kDraws;
        expected += part * (1 - part) * width * width;
      }
      EXPECT_NEAR(error, expected, 0.05 * expected) << name;
      EXPECT_LE(error, std::min(n / levels / levels, std::sqrt(n) / levels) * norm * norm) << name;
    }
  }
}

TEST(Sign, IsTheContractionOfItsPaper) {
  for (const size_t elements : {1, 9, 1000}) {
    const std::vector<float> values = RandomUpdates(1, elements, 0.1f)[0].delta;
    const std::vector<float> got = ThereAndBack("sign", values);
    double sum = 0;
    for (const float value : values) sum += std::abs(static_cast<double>(value));
    const double expected = SquareOf(values) - sum * sum / static_cast<double>(elements);
    EXPECT_NEAR(SquareBetween(got, values), expected, 1e-6 * SquareOf(values)) << elements;
    for (size_t i = 0; i < elements; ++i) EXPECT_EQ(std::signbit(got[i]), values[i] < 0);
  }
  EXPECT_EQ(BytesBy("sign", std::vector<float>(9)).size(), 6u);
}

// Of normal numbers and of what is as far from them as can be, by the table of the paper.
TEST(Eden, Errors_AreThePapers) {
  const std::map<std::string, double> errors = {
      {"eden1", 0.571}, {"eden2", 0.133}, {"eden3", 0.0358}, {"eden4", 0.0096}};
  std::vector<float> normal = RandomUpdates(1, 8192, 0.1f)[0].delta, heavy = normal;
  for (float& value : heavy) value = std::exp(20 * value);
  for (const auto& [name, error] : errors) {
    for (const std::vector<float>& values : {normal, heavy}) {
      double sum = 0;
      constexpr uint32_t kDraws = 30;
      for (uint32_t draw = 0; draw < kDraws; ++draw) sum += SquareBetween(ThereAndBack(name, values, draw), values);
      EXPECT_NEAR(sum / kDraws / SquareOf(values), error, 0.02 * error) << name;
    }
    EXPECT_EQ(BytesBy(name, normal).size(), 8 + 4 + 1024 * static_cast<size_t>(name[4] - '0'));
  }
}

// Blocks of 2^16, then the powers of two of what is left, and padding of the last alone: 2^16 + 2^15 + 2^12 + 5 of 8.
// The error of each is the papers', wherever it lies.
TEST(Eden, BlocksOf65536_HaveTheErrorOfThePapers) {
  constexpr size_t kElements = 65536 + 32768 + 4096 + 5;
  const std::vector<float> values = RandomUpdates(1, kElements, 0.1f)[0].delta;
  EXPECT_EQ(BytesBy("eden2", values).size(), 8 + 4 * 4 + (kElements - 5) / 4 + 2);
  constexpr uint32_t kDraws = 16;
  for (const auto& [name, error] : std::map<std::string, double>{{"eden1", 0.571}, {"eden4", 0.0096}}) {
    std::vector<double> wrong(kElements);
    for (uint32_t draw = 0; draw < kDraws; ++draw) {
      const std::vector<float> got = ThereAndBack(name, values, draw);
      for (size_t i = 0; i < kElements; ++i) wrong[i] += std::pow(static_cast<double>(got[i]) - values[i], 2) / kDraws;
    }
    for (const auto& [first, count] : {std::pair<size_t, size_t>{0, 65536}, {65536, 32768}, {98304, 4096}}) {
      const auto from = static_cast<std::ptrdiff_t>(first), to = static_cast<std::ptrdiff_t>(first + count);
      const double found = std::accumulate(wrong.begin() + from, wrong.begin() + to, 0.0) /
                           SquareOf({values.begin() + from, values.begin() + to});
      EXPECT_NEAR(found, error, 0.02 * error) << name << " from " << first;
    }
  }
}

// What a thread has undone last is not taken for another's block: two updates, read in turns.
TEST(Eden, TwoUpdatesInTurns_AreNotMixedUp) {
  const auto updates = RandomUpdates(2, 9000, 0.1f);
  const auto codec = *Codec::Create("eden3", 9000);
  std::string bytes[2];
  std::vector<float> whole[2], turns[2];
  for (size_t k = 0; k < 2; ++k) {
    bytes[k] = BytesBy("eden3", updates[k].delta);
    whole[k] = ValuesBy("eden3", bytes[k], 9000);
    turns[k].resize(9000);
  }
  for (size_t first = 0; first < 9000; first += 1000) {
    for (size_t k = 0; k < 2; ++k)
      codec->Decode(std::as_bytes(std::span(bytes[k])), static_cast<int64_t>(first),
                    std::span(turns[k]).subspan(first, 1000));
  }
  EXPECT_EQ(turns[0], whole[0]);
  EXPECT_EQ(turns[1], whole[1]);
}

// The mean over rotations is the value: what is left of the error falls with their number.
TEST(Eden, ManyRotations_HaveTheValuesForTheirMean) {
  constexpr uint32_t kDraws = 400;
  std::vector<float> values = RandomUpdates(1, 1024, 0.1f)[0].delta;
  values[5] = 3;
  for (const char* name : {"eden1", "eden3"}) {
    std::vector<double> sums(values.size());
    double single = 0;
    for (uint32_t draw = 0; draw < kDraws; ++draw) {
      const std::vector<float> got = ThereAndBack(name, values, draw);
      single += SquareBetween(got, values) / kDraws;
      for (size_t i = 0; i < got.size(); ++i) sums[i] += got[i];
    }
    std::vector<float> mean(values.size());
    for (size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(sums[i] / kDraws);
    EXPECT_NEAR(SquareBetween(mean, values) / (single / kDraws), 1, 0.35) << name;
  }
}

}  // namespace
}  // namespace rivulet
