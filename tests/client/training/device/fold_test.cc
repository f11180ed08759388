// Aggregation on a device gives the same integers as on the host, on the emulated back end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "client/training/device/gpu_fold.h"
#include "engine/program/program.h"
#include "engine/tensor/float16.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

// Lanes of a few runs with a gap between, and what they are differences to.
class GpuFoldTest : public ::testing::Test {
 protected:
  static constexpr size_t kStride = 12'800 * sizeof(float);
  const std::vector<std::pair<size_t, int64_t>> places_ = {{0, 5000}, {5008, 1}, {5024, 4097}};  // offset, count

  void SetUp() override {
    EnterWorkerThread();
    ASSERT_OK_AND_ASSIGN(device_, GpuDevice::Open(gpu::EmulatedBackend(), 0));
    ASSERT_OK_AND_ASSIGN(stream_, device_->NewStream());
  }

  static int64_t Elements() { return 5000 + 1 + 4097; }

  // Of all sizes around those where rounding and bounds decide, with zeros and denormals among them.
  static std::vector<float> Values(uint32_t seed, int most_exponent) {
    std::mt19937 draw(seed);
    std::vector<float> values(kStride / sizeof(float));
    for (float& value : values) {
      const auto exponent = static_cast<int>(draw() % 60) - 60 + most_exponent;
      value = std::ldexp(1.0f + static_cast<float>(draw() >> 9) * 0x1p-23f, exponent);
      if (draw() % 2 == 0) value = -value;
      if (draw() % 97 == 0) value = 0;
      if (draw() % 89 == 0) value = std::bit_cast<float>(static_cast<uint32_t>(draw() % 1000));
    }
    return values;
  }

  template <typename Sum>
  void ExpectHostsBits(std::vector<std::vector<float>> lanes, const std::vector<int32_t>& chosen,
                       const std::vector<double>& scales, int value_bits, bool with_base) {
    const std::vector<float> base = Values(99, -4);
    ASSERT_OK_AND_ASSIGN(const GpuMemory values, device_->Allocate(lanes.size() * kStride, "values"));
    ASSERT_OK_AND_ASSIGN(const GpuMemory minus, device_->Allocate(kStride, "base"));
    for (size_t i = 0; i < lanes.size(); ++i) {
      ASSERT_OK(stream_->ToDevice(values.data() + i * kStride, lanes[i].data(), kStride));
    }
    ASSERT_OK(stream_->ToDevice(minus.data(), base.data(), kStride));
    std::vector<GpuRun> runs;
    for (const auto& [offset, count] : places_) {
      const size_t at = offset * sizeof(float);
      runs.push_back({{values.data() + at, kStride}, with_base ? minus.data() + at : nullptr, count});
    }
    std::vector<Sum> sums(static_cast<size_t>(Elements()), 7), expected = sums;
    std::vector<FoldState> states(chosen.size());
    GpuFold fold(device_);
    ASSERT_OK_AND_ASSIGN(const std::vector<DevicePart::Folded> folded,
                         fold.Fold(*stream_, runs, {}, chosen, scales, value_bits, 1, std::span(sums), states));
    for (size_t i = 0; i < chosen.size(); ++i) {
      SCOPED_TRACE(chosen[i]);
      const std::vector<float>& of = lanes[static_cast<size_t>(chosen[i])];
      FoldState state;
      std::vector<Sum> all = expected;
      int64_t first = 0, taken = 0;
      float bad = 0;
      for (const auto& [offset, count] : places_) {
        const FloatRun run{of.data() + offset, with_base ? base.data() + offset : nullptr, count};
        const auto part = std::span(all).subspan(static_cast<size_t>(first), static_cast<size_t>(count));
        const int64_t good = AddToSums(run, scales[i], value_bits, part, state);
        taken += good;
        if (good < count) {
          bad = ValueOf(run, good);
          break;
        }
        first += count;
      }
      EXPECT_EQ(folded[i].taken, taken);
      EXPECT_EQ(states[i].wire_index, taken);
      if (taken == Elements()) {
        expected = all;
        EXPECT_EQ(states[i].nonzeros, state.nonzeros);
        EXPECT_EQ(states[i].lost, state.lost);
        EXPECT_NEAR(states[i].Norm(), state.Norm(), 1e-12 * state.Norm());
      } else {
        EXPECT_EQ(std::bit_cast<int32_t>(folded[i].bad), std::bit_cast<int32_t>(bad));
      }
    }
    EXPECT_EQ(sums, expected);
    // Taken away again, nothing is left.
    states.assign(chosen.size(), {});
    ASSERT_OK(fold.Fold(*stream_, runs, {}, chosen, scales, value_bits, -1, std::span(sums), states));
    EXPECT_EQ(sums, std::vector<Sum>(static_cast<size_t>(Elements()), 7));
  }

  std::shared_ptr<GpuDevice> device_;
  std::unique_ptr<GpuStream> stream_;
};

TEST_F(GpuFoldTest, SeveralLanes_GiveTheIntegersOfTheHost) {
  std::vector<std::vector<float>> lanes;
  for (uint32_t i = 0; i < 6; ++i) lanes.push_back(Values(i, 2));
  for (const bool with_base : {false, true}) {
    for (const int fraction_bits : {0, 21, 40}) {
      const auto scale = [&](int64_t weight) { return std::ldexp(static_cast<double>(weight), fraction_bits); };
      ExpectHostsBits<int64_t>(lanes, {0, 1, 2, 3, 4, 5},
                               {scale(1), scale(3), scale(50), scale(7), scale(1000), scale(1)}, 3, with_base);
      ExpectHostsBits<int64_t>(lanes, {1, 4}, {scale(3), scale(5)}, 3, with_base);
      ExpectHostsBits<int64_t>(lanes, {2}, {scale(9)}, 3, with_base);
    }
    ExpectHostsBits<int32_t>(lanes, {0, 1, 2, 3, 5}, {0x1p20, 0x1p21, 0x1p10, 3 * 0x1p15, 1}, 3, with_base);
  }
}

TEST_F(GpuFoldTest, ValuesThatAreBad_RefuseTheirLaneAlone) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -8.5f, 1e30f};
  std::vector<std::vector<float>> lanes;
  for (uint32_t i = 0; i < 7; ++i) lanes.push_back(Values(10 + i, 2));
  lanes[1][4999] = bad[0];
  lanes[3][5008] = bad[1];
  lanes[3][5024] = bad[0];
  lanes[4][0] = bad[2];
  lanes[6][5024 + 4096] = bad[3];
  const std::vector<double> scales(7, 0x1p24);
  for (const bool with_base : {false, true}) {
    ExpectHostsBits<int64_t>(lanes, {0, 1, 2, 3, 4, 5, 6}, scales, 3, with_base);
    ExpectHostsBits<int32_t>(lanes, {0, 1, 2, 3, 4, 5, 6}, scales, 3, with_base);
  }
}

// What happens to an update on its way happens before its values are judged: to the bits of the host's own.
TEST_F(GpuFoldTest, ClippedAndEncodedValues_GiveTheIntegersOfTheHost) {
  std::vector<std::vector<float>> lanes = {Values(1, 2), Values(2, 2), Values(3, 2)};
  lanes[1][17] = 7.9f;  // beyond the bound of 4, and within it when it has been clipped
  lanes[2][18] = 6;
  const std::vector<double> factors = {1, 0.37, 1}, scales = {0x1p30, 3 * 0x1p30, 0x1p30};
  ASSERT_OK_AND_ASSIGN(const GpuMemory values, device_->Allocate(lanes.size() * kStride, "values"));
  ASSERT_OK_AND_ASSIGN(const GpuMemory on_device, device_->Allocate(3 * sizeof(double), "factors"));
  for (size_t i = 0; i < lanes.size(); ++i) {
    ASSERT_OK(stream_->ToDevice(values.data() + i * kStride, lanes[i].data(), kStride));
  }
  ASSERT_OK(stream_->ToDevice(on_device.data(), factors.data(), 3 * sizeof(double)));
  const auto coded = [](float value, gpu::FoldCodec codec) {
    if (codec == gpu::FoldCodec::kFloat16) return static_cast<float>(float16(value));
    return codec == gpu::FoldCodec::kBFloat16 ? static_cast<float>(bfloat16(value)) : value;
  };
  for (const gpu::FoldCodec codec : {gpu::FoldCodec::kFloat32, gpu::FoldCodec::kFloat16, gpu::FoldCodec::kBFloat16}) {
    std::vector<int64_t> sums(5000), expected(5000);
    std::vector<FoldState> states(3);
    const GpuRun run{{values.data(), kStride}, nullptr, 5000};
    const GpuFoldForm form{reinterpret_cast<const double*>(on_device.data()), codec};
    GpuFold fold(device_);
    ASSERT_OK_AND_ASSIGN(
        const std::vector<DevicePart::Folded> folded,
        fold.Fold(*stream_, {&run, 1}, form, std::vector<int32_t>{0, 1, 2}, scales, 2, 1, std::span(sums), states));
    for (size_t lane = 0; lane < 2; ++lane) {
      std::vector<float> sent(5000);
      for (size_t i = 0; i < sent.size(); ++i) {
        const float value = factors[lane] == 1 ? lanes[lane][i] : static_cast<float>(lanes[lane][i] * factors[lane]);
        sent[i] = coded(value, codec);
      }
      FoldState state;
      EXPECT_EQ(AddToSums({sent.data(), nullptr, 5000}, scales[lane], 2, std::span(expected), state), 5000);
      EXPECT_EQ(folded[lane].taken, 5000);
      EXPECT_EQ(states[lane].nonzeros, state.nonzeros);
      EXPECT_EQ(states[lane].lost, state.lost);
    }
    EXPECT_EQ(sums, expected);
    EXPECT_EQ(folded[2].taken, 18);
    EXPECT_EQ(folded[2].bad, 6);
  }
}

// At the bound itself a value is good, and the sum still holds it.
TEST_F(GpuFoldTest, LargestScaleAndValue_AreExact) {
  std::vector<std::vector<float>> lanes = {Values(5, 2)};
  lanes[0][17] = 8;
  lanes[0][18] = -8;
  ExpectHostsBits<int64_t>(lanes, {0}, {0x1p59}, 3, false);
}

}  // namespace
}  // namespace rivulet
