// QSGD in Elias codes: the values of "qsgd2" and others to the bit, in fewer bytes; invalid codes are refused.
#include <cmath>
#include <limits>

#include "federated/codecs/codec.h"
#include "tests/federated/aggregation_updates.h"

namespace rivulet {
namespace {

using ::testing::HasSubstr;
using testing::RandomUpdates;

const std::map<std::string, std::string> kPlain = {{"elias1", "qsgd2"}, {"elias7", "qsgd4"}, {"elias127", "qsgd8"}};

std::string CodedBytes(const std::string& name, const std::vector<float>& values) {
  const auto codec = *Codec::Create(name, std::ssize(values));
  const FloatRun run{values.data(), nullptr, std::ssize(values)};
  std::string bytes = "before";
  Draws draws(StreamFor(3, "", Purpose::kSynthesize), 0);
  codec->Encode({&run, 1}, draws, bytes);
  EXPECT_LE(std::ssize(bytes) - 6, codec->MaxBytes());
  EXPECT_OK(codec->Check(std::as_bytes(std::span(bytes).subspan(6))));
  return bytes.substr(6);
}

std::vector<float> CodedValues(const std::string& name, const std::string& bytes, size_t elements, size_t step) {
  const auto codec = *Codec::Create(name, static_cast<int64_t>(elements));
  std::vector<float> values(elements, -7);
  for (size_t first = 0; first < elements; first += step) {
    codec->Decode(std::as_bytes(std::span(bytes)), static_cast<int64_t>(first),
                  std::span(values).subspan(first, std::min(step, elements - first)));
  }
  return values;
}

std::string WhyRefused(const std::string& name, int64_t elements, const std::string& bytes) {
  return std::string(Message((*Codec::Create(name, elements))->Check(std::as_bytes(std::span(bytes)))));
}

TEST(Elias, Values_AreThoseOfPlainLevelsToTheBit) {
  for (const auto& [name, plain] : kPlain) {
    for (const size_t elements : {1, 255, 256, 257, 4096, 4097, 9000}) {
      std::vector<float> values = RandomUpdates(1, elements, 0.1f)[0].delta;
      values[elements / 2] = 3;
      const std::vector<float> wanted = CodedValues(plain, CodedBytes(plain, values), elements, 4096);
      const std::string bytes = CodedBytes(name, values);
      for (const size_t step : {7, 300, 4096, 10'000})
        EXPECT_EQ(CodedValues(name, bytes, elements, step), wanted) << name;
    }
  }
}

// Appendix A of the paper: √n non-zero values of n cost some 2.8 bits each and a place.
TEST(Elias, OfNormalValues_TakesAThirdOfPlainLevels) {
  const std::vector<float> values = RandomUpdates(1, 8192, 0.1f)[0].delta;
  const std::map<std::string, double> most = {{"elias1", 0.4}, {"elias7", 0.6}, {"elias127", 0.95}};
  for (const auto& [name, plain] : kPlain) {
    const double share =
        static_cast<double>(CodedBytes(name, values).size()) / static_cast<double>(CodedBytes(plain, values).size());
    EXPECT_LT(share, most.at(name)) << name;
    RecordProperty(name, fmt::format("{:.3f}", share));
  }
  EXPECT_EQ(CodedBytes("elias7", std::vector<float>(4096)).size(), 4 + 16 * (32 + 17) / 8u);
}

// 5 = ‖(3, 0, −4)‖ in float32 is 00 00 a0 40; of one level: at 0, +1; at 2, −1; and one place to the end.
TEST(Elias, Bytes_AreNormsPlacesAndSigns) {
  bool seen = false;
  for (uint32_t draw = 0; draw < 40 && !seen; ++draw) {
    const auto codec = *Codec::Create("elias1", 3);
    const float values[] = {3, 0, -4};
    const FloatRun run{values, nullptr, 3};
    Draws draws(StreamFor(3, "", Purpose::kSynthesize), draw);
    std::string bytes;
    codec->Encode({&run, 1}, draws, bytes);
    std::vector<float> got(3);
    codec->Decode(std::as_bytes(std::span(bytes)), 0, got);
    if (got != std::vector<float>{5, 0, -5}) continue;
    seen = true;
    // γ(1) +, γ(2) −, γ(1): 1 0 · 010 1 · 1, the first in the lowest bit.
    EXPECT_EQ(bytes, std::string("\x05\0\0\0\0\0\xa0\x40\x69", 9));
  }
  EXPECT_TRUE(seen);
}

TEST(Elias, WhatIsNoNumber_IsNotHidden) {
  for (const auto& [name, plain] : kPlain) {
    std::vector<float> values(5000, 0.5f);
    values[4500] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(std::isfinite(CodedValues(name, CodedBytes(name, values), 5000, 4096)[4500])) << name;
  }
}

TEST(Elias, BytesOfAnotherForm_AreRefused) {
  const std::vector<float> values = RandomUpdates(1, 5000, 0.1f)[0].delta;
  const std::string bytes = CodedBytes("elias7", values);
  EXPECT_THAT(WhyRefused("elias7", 5000, "short"), HasSubstr("end inside the index of 2 groups"));
  EXPECT_THAT(WhyRefused("elias7", 5000, bytes + '\0'), HasSubstr("continue behind the last group"));
  EXPECT_THAT(WhyRefused("elias7", 5000, bytes.substr(0, bytes.size() - 1)), HasSubstr("its group 1 is from byte"));
  EXPECT_THAT(WhyRefused("elias1", 5000, bytes), HasSubstr("is no sequence of norms"));
  EXPECT_THAT(WhyRefused("elias7", 4999, bytes), HasSubstr("is no sequence of norms"));
}

// Whatever a stranger sends is refused, or it is values.
TEST(Elias, AnyFlippedBit_IsRefusedOrIsValues) {
  const std::vector<float> values = RandomUpdates(1, 700, 0.1f)[0].delta;
  for (const auto& [name, plain] : kPlain) {
    const std::string bytes = CodedBytes(name, values);
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << (bit % 8));
      if (!WhyRefused(name, 700, flipped).empty()) continue;
      for (const float value : CodedValues(name, flipped, 700, 4096)) EXPECT_NE(value, -7) << name << " " << bit;
    }
  }
}

}  // namespace
}  // namespace rivulet
