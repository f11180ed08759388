// Codecs and seeded noise on a device compared with the host's: decoded values agree to the bit, on the emulated back
// end.
#include "federated/codecs/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "client/training/device/gpu_codec.h"
#include "engine/gpu/gpu_alignment.h"
#include "engine/kernels/cuda/noise.h"
#include "engine/program/program.h"
#include "federated/mechanisms/mechanism.h"
#include "federated/random/streams.h"
#include "federated/settings/setting_tables.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using Values = std::vector<float>;

class GpuCodecTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kOp = 1;

  void SetUp() override {
    EnterWorkerThread();
    ASSERT_OK_AND_ASSIGN(device_, GpuDevice::Open(gpu::EmulatedBackend(), 0));
    ASSERT_OK_AND_ASSIGN(stream_, device_->NewStream());
  }

  // Of all sizes, with ties, zeros of both signs and whole blocks of zeros, for which nothing is drawn.
  static Values Mixed(size_t count, uint32_t seed) {
    std::mt19937 draw(seed);
    Values values(count);
    for (size_t i = 0; i < count; ++i) {
      const int exponent = -static_cast<int>(draw() % 12);
      values[i] = std::ldexp(1.0f + static_cast<float>(draw() >> 9) * 0x1p-23f, exponent);
      if (draw() % 3 == 0) values[i] = 0.25f;
      if (draw() % 2 == 0) values[i] = -values[i];
      if (draw() % 5 == 0) values[i] = draw() % 2 == 0 ? 0.0f : -0.0f;
      if ((i / 300 + seed) % 4 == 0) values[i] = 0;
    }
    return values;
  }

  static StreamKey StreamOfLane(size_t lane, Purpose purpose) {
    return StreamFor(ClientKey(42, fmt::format("client-{}", lane)), purpose, 3, static_cast<uint16_t>(lane));
  }

  // On the device: as they lie in memory, with streams of another purpose.
  struct Lanes {
    GpuMemory values, scratch, streams;
    size_t stride = 0;
  };
  Lanes Bring(const std::vector<Values>& lanes, size_t padded, size_t scratch) {
    Lanes there;
    there.stride = GpuAligned(padded * sizeof(float)) + 256;
    there.values = *device_->Allocate(lanes.size() * there.stride, "values");
    there.scratch = *device_->Allocate(lanes.size() * std::max<size_t>(scratch, 256), "scratch");
    there.streams = *device_->Allocate(lanes.size() * sizeof(StreamKey), "streams");
    std::vector<StreamKey> keys;
    for (size_t lane = 0; lane < lanes.size(); ++lane) keys.push_back(StreamOfLane(lane, Purpose::kGraph));
    EXPECT_OK(stream_->ToDevice(there.streams.data(), keys.data(), keys.size() * sizeof(StreamKey)));
    EXPECT_OK(stream_->Fill(there.values.data(), 0, lanes.size() * there.stride));
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      EXPECT_OK(stream_->ToDevice(there.values.data() + lane * there.stride, lanes[lane].data(),
                                  lanes[lane].size() * sizeof(float)));
    }
    EXPECT_OK(stream_->Wait());
    return there;
  }
  std::vector<Values> Fetch(const Lanes& there, const std::vector<Values>& like) {
    std::vector<Values> lanes = like;
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      EXPECT_OK(stream_->ToHost(lanes[lane].data(), there.values.data() + lane * there.stride,
                                lanes[lane].size() * sizeof(float)));
    }
    EXPECT_OK(stream_->Wait());
    return lanes;
  }

  static PartSpec PartOf(const std::string& codec, size_t elements, double fraction) {
    PartSpec part;
    part.codec = codec;
    part.elements = static_cast<int64_t>(elements);
    if (fraction > 0) part.codec_settings = {{"fraction", fraction}};
    return part;
  }

  // All lanes at once, and each by itself.
  void ExpectHostsBits(const std::string& codec, const std::vector<Values>& lanes, double fraction = 0) {
    SCOPED_TRACE(fmt::format("{} of {} values", codec, lanes[0].size()));
    const PartSpec part = PartOf(codec, lanes[0].size(), fraction);
    ASSERT_OK_AND_ASSIGN(const auto host, Codec::Create(codec, part.elements, part.codec_settings));
    const std::optional<GpuCodec> on_device = GpuCodec::Of(part);
    ASSERT_TRUE(on_device.has_value());
    const Lanes there = Bring(lanes, static_cast<size_t>(on_device->padded_values()), on_device->ScratchBytes());
    const auto encode = [&](size_t lane, int count) {
      GpuSentPart sent;
      sent.values = {there.values.data() + lane * there.stride, there.stride};
      sent.scratch = {there.scratch.data(), std::max<size_t>(on_device->ScratchBytes(), 256)};
      sent.streams = reinterpret_cast<const gpu::Stream*>(there.streams.data()) + lane;
      sent.op = kOp;
      sent.lanes = count;
      EXPECT_OK(on_device->Encode(*stream_, sent));
      EXPECT_OK(stream_->Wait());
    };
    encode(0, static_cast<int>(lanes.size()));
    const std::vector<Values> together = Fetch(there, lanes);
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      SCOPED_TRACE(lane);
      Draws draws(StreamOfLane(lane, Purpose::kEncode), kOp);
      const FloatRun run{lanes[lane].data(), nullptr, part.elements};
      std::string bytes;
      host->Encode({&run, 1}, draws, bytes);
      const auto sent = std::as_bytes(std::span(bytes));
      ASSERT_OK(host->Check(sent));
      Values arrives(lanes[lane].size());
      host->Decode(sent, 0, arrives);
      for (size_t i = 0; i < arrives.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(together[lane][i]), std::bit_cast<uint32_t>(arrives[i]))
            << i << ": " << together[lane][i] << " and " << arrives[i] << " of " << lanes[lane][i];
      }
      ASSERT_OK(stream_->ToDevice(there.values.data() + lane * there.stride, lanes[lane].data(),
                                  lanes[lane].size() * sizeof(float)));
      if (on_device->padded_values() > part.elements) {
        ASSERT_OK(stream_->Fill(there.values.data() + lane * there.stride + arrives.size() * sizeof(float), 0,
                                static_cast<size_t>(on_device->padded_values() - part.elements) * sizeof(float)));
      }
      encode(lane, 1);
      EXPECT_EQ(0, std::memcmp(Fetch(there, lanes)[lane].data(), arrives.data(), arrives.size() * sizeof(float)));
    }
  }

  void ExpectHostsBits(const std::string& codec, size_t count, double fraction = 0) {
    std::vector<Values> lanes;
    for (uint32_t lane = 0; lane < 3; ++lane) lanes.push_back(Mixed(count, lane + 1));
    lanes.push_back(Values(count));  // nothing but zeros
    ExpectHostsBits(codec, lanes, fraction);
  }

  std::shared_ptr<GpuDevice> device_;
  std::unique_ptr<GpuStream> stream_;
};

TEST_F(GpuCodecTest, ScaledBlocks_ArriveAsTheHostsDo) {
  for (const char* codec : {"int4", "int8", "qsgd2", "qsgd4", "qsgd8", "elias1", "elias7", "elias127"}) {
    for (const size_t count : {1, 63, 64, 257, 3000}) ExpectHostsBits(codec, count);
  }
}

// More blocks than threads that find their places.
TEST_F(GpuCodecTest, ManyBlocks_ArriveAsTheHostsDo) { ExpectHostsBits("int4", 40'001); }

TEST_F(GpuCodecTest, Signs_ArriveAsTheHostsDo) {
  for (const size_t count : {1, 5, 4096, 9001}) ExpectHostsBits("sign", count);
}

TEST_F(GpuCodecTest, Sparse_ArriveAsTheHostsDo) {
  for (const char* codec : {"top_k", "random_k"}) {
    for (const double fraction : {1e-4, 0.3, 1.0}) {
      for (const size_t count : {1, 257, 9000}) ExpectHostsBits(codec, count, fraction);
    }
  }
}

// Whole blocks, each power of two of what is left, and a rest that is padded.
TEST_F(GpuCodecTest, RotatedBlocks_ArriveAsTheHostsDo) {
  for (const char* codec : {"eden1", "eden2", "eden3", "eden4"}) {
    for (const size_t count : {1, 3, 100, 4096, 4097}) ExpectHostsBits(codec, count);
  }
  ExpectHostsBits("eden3", {Mixed(65'536 + 32'768 + 4'096 + 700, 1), Mixed(65'536 + 32'768 + 4'096 + 700, 2)});
}

// Values that are near the least normal number, where the host's threads count as zero what is below.
TEST_F(GpuCodecTest, TinyValues_ArriveAsTheHostsDo) {
  std::vector<Values> lanes;
  for (const float unit : {0x1p-126f, 0x1p-123f, 0x1p-119f, 0x1p-112f}) {
    Values& values = lanes.emplace_back(Mixed(700, 9));
    for (float& value : values) {
      value *= unit;  // below it, zero on this thread
    }
  }
  for (const char* codec : {"int4", "int8", "qsgd2", "qsgd8", "sign", "eden2"}) ExpectHostsBits(codec, lanes);
  for (const char* codec : {"top_k", "random_k"}) ExpectHostsBits(codec, lanes, 0.1);
}

// Whoever folds finds it in what arrives, as it does on the host: in its block, and in its lane alone.
TEST_F(GpuCodecTest, WhatIsNoNumber_ArrivesAsNone) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<Values> lanes;
    for (uint32_t lane = 0; lane < 4; ++lane) lanes.push_back(Mixed(9000, lane + 1));
    lanes[1][0] = bad;
    lanes[3][8999] = bad;
    for (const char* codec : {"int4", "int8", "qsgd4", "elias7", "sign", "eden2"}) ExpectHostsBits(codec, lanes);
  }
}

// Of a value that is no number, what is sent of it is none, and what is left out of it may be anything.
TEST_F(GpuCodecTest, SparseValuesThatAreNoNumbers_AreSent) {
  std::vector<Values> lanes = {Mixed(5000, 1), Mixed(5000, 2)};
  lanes[1][4321] = std::numeric_limits<float>::infinity();
  ExpectHostsBits("top_k", lanes, 0.01);
  const PartSpec part = PartOf("random_k", 5000, 0.01);
  const GpuCodec codec = *GpuCodec::Of(part);
  const Lanes there = Bring(lanes, 5000, codec.ScratchBytes());
  ASSERT_OK(codec.Encode(*stream_, {.values = {there.values.data(), there.stride},
                                    .streams = reinterpret_cast<const gpu::Stream*>(there.streams.data()),
                                    .op = kOp,
                                    .lanes = 2}));
  ASSERT_OK(stream_->Wait());
  const auto none = [](float value) { return !std::isfinite(value); };
  EXPECT_EQ(std::ranges::count_if(Fetch(there, lanes)[0], none), 0);
  EXPECT_EQ(std::ranges::count_if(Fetch(there, lanes)[1], none), 50);
}

TEST_F(GpuCodecTest, CodecsOfTheFold_WantNothingBefore) {
  for (const char* codec : {"f32", "f16", "bf16"}) {
    ASSERT_TRUE(GpuCodec::Of(PartOf(codec, 10, 0)).has_value());
    EXPECT_TRUE(GpuCodec::Of(PartOf(codec, 10, 0))->in_fold());
  }
  EXPECT_FALSE(GpuCodec::Of(PartOf("int9", 10, 0)).has_value());
}

// So that a new one is not forgotten. The places of one are the version's, and devices draw from lanes' own streams.
TEST_F(GpuCodecTest, EveryRegisteredCodec_IsKnown) {
  const std::vector<std::string> codecs = SettingTableNames("codec");
  EXPECT_GE(codecs.size(), 18u);
  for (const std::string& codec : codecs) {
    EXPECT_EQ(GpuCodec::Of(PartOf(codec, 10, 0)).has_value(), codec != "random_k_shared") << codec;
  }
}

// Two parts of one update, whose values share pairs of numbers; with tries to spare, and too few, when one thread goes
// on by itself.
TEST_F(GpuCodecTest, SeededNoise_IsTheHostsForAnyTries) {
  constexpr double kDeviation = 0.37;
  ASSERT_OK_AND_ASSIGN(const auto mechanism,
                       Mechanism::Create({"noise", {{"deviation", kDeviation}, {"source", std::string("seeded")}}}));
  for (const size_t first : {1, 1000, 3001}) {
    for (const size_t second : {0, 1, 2500}) {
      std::vector<Values> lanes = {Mixed(first + second, 1), Mixed(first + second, 2), Mixed(first + second, 3)};
      std::vector<Values> host = lanes;
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        Draws draws(StreamOfLane(lane, Purpose::kNoise), kOp);
        const std::span<float> parts[] = {std::span(host[lane]).first(first), std::span(host[lane]).subspan(first)};
        Scalars declared;
        ASSERT_OK(mechanism->Apply(parts, draws, declared));
      }
      const auto pairs = static_cast<int64_t>((first + second + 1) / 2);
      for (const int64_t tries : {pairs * 2 + 64, pairs, pairs / 3 + 1}) {
        SCOPED_TRACE(fmt::format("{} and {} values of {} tries", first, second, tries));
        const size_t scratch = GpuAligned(static_cast<size_t>(gpu::NoiseChunks(tries) + 1) * sizeof(int64_t));
        const Lanes there = Bring(lanes, first + second, scratch);
        gpu::NoiseArguments arguments = {};
        arguments.counts = {reinterpret_cast<int64_t*>(there.scratch.data()), scratch};
        arguments.tries = tries;
        arguments.deviation = kDeviation;
        arguments.streams = reinterpret_cast<const gpu::Stream*>(there.streams.data());
        arguments.purpose = static_cast<uint32_t>(Purpose::kNoise);
        arguments.op = kOp;
        arguments.lanes = {3, nullptr};
        ASSERT_OK(stream_->Launch("noise_count", arguments));
        ASSERT_OK(stream_->Launch(
            "codec_places", gpu::CodecPlacesArguments{arguments.counts, gpu::NoiseChunks(tries), arguments.lanes}));
        for (const auto& [at, count] : {std::pair{size_t{0}, first}, std::pair{first, second}}) {
          arguments.values = {reinterpret_cast<float*>(there.values.data()) + at, there.stride};
          arguments.first = static_cast<int64_t>(at);
          arguments.count = static_cast<int64_t>(count);
          ASSERT_OK(stream_->Launch("noise_add", arguments));
          ASSERT_OK(stream_->Launch("noise_rest", arguments));
        }
        ASSERT_OK(stream_->Wait());
        EXPECT_EQ(Fetch(there, lanes), host);
      }
    }
  }
}

}  // namespace
}  // namespace rivulet
