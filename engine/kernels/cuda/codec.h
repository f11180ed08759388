// Encoding and decoding of all lanes' updates on the device. The result equals the bytes of federated/codecs decoded by
// the aggregator, to the bit, but no bytes are made. Each lane's part is copied in wire order ("send_values"); the
// codec's kernels then replace each value by its decoded one.
//
// A codec with random rounding draws one number after the other, and none for a block of zeros. The draws of the
// preceding blocks are counted first, and then each value draws the number at its position. Sums that the host adds in
// order are added by one thread of each lane, or of each of its blocks.
//
// `lanes` means the lanes of these arguments' kernels: the grid's z, except for kernels with one block per lane.
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/lane_span.h"
#include "engine/kernels/cuda/random.h"

namespace rivulet::gpu {

// "send_values": to[i] = value i of a run (values[i], or values[i] − minus[i]) times the lane's factor (clip.h), and
// zeros from `count` to `padded`. With `left_out` what a client's codec left out before is added to it, and the sum
// takes its place.
struct SendValuesArguments {
  LaneSpan<const float> values;
  const float* minus;        // null: none
  const double* factors;     // by the lane's number; null: 1
  LaneSpan<float> left_out;  // null: none
  LaneSpan<float> to;
  int64_t count, padded;
  Lanes lanes;
};

// "leave_out": left_out[i] −= sent[i].
struct LeaveOutArguments {
  LaneSpan<const float> sent;
  LaneSpan<float> left_out;
  int64_t count;
  Lanes lanes;
};

// "codec_places": what each of `blocks` counts becomes the sum of those before it, and the sum of all is behind them.
struct CodecPlacesArguments {
  LaneSpan<int64_t> counts;  // blocks + 1
  int64_t blocks;
  Lanes lanes;
};

// "codec_scales", "codec_levels": whole multiples of a scale that each block of 64 or 256 values has, its largest
// magnitude over `levels` (int4, int8), or of its norm over `levels` (qsgd and elias). Between the two, "codec_places"
// of `counts`, the draws of each block.
struct ScaledCodecArguments {
  LaneSpan<float> values;
  LaneSpan<float> scales;
  LaneSpan<int64_t> counts;
  int64_t count;
  int32_t block, levels;
  bool by_norm;
  const Stream* streams;  // by lane, of any purpose
  uint32_t purpose, op;
  Lanes lanes;
};

// "sign_scale", "sign_values": one scale for all.
struct SignCodecArguments {
  LaneSpan<float> values;
  LaneSpan<float> scale;
  int64_t count;
  Lanes lanes;
};

// Of the k largest magnitudes the last, and how many of just that are among them. Found by counting, first the upper
// bits ("top_k_clear", "top_k_count", "top_k_cut" with `lower` false), then the lower ones of those that share them
// (again, `lower`). "top_k_ties" counts, in each block of kTopKBlock, those that are just that; "codec_places" of them,
// and "top_k_keep" makes zeros of all others than the k.
inline constexpr int32_t kTopKLowBits = 15;
inline constexpr int64_t kTopKBins = int64_t{1} << 16, kTopKBlock = 4096;
constexpr int64_t TopKBlocks(int64_t count) { return (count + kTopKBlock - 1) / kTopKBlock; }
struct TopKCut {
  uint32_t high, least;
  int64_t left;  // of k, while they are looked for; then how many of `least` are sent
};
struct TopKArguments {
  LaneSpan<float> values;
  LaneSpan<uint32_t> bins;  // kTopKBins
  LaneSpan<TopKCut> cut;
  LaneSpan<int64_t> counts;
  int64_t count, k;
  bool lower;
  Lanes lanes;
};

// "random_k": k values that are drawn without looking at them, times count / k; all others become zeros.
struct RandomKArguments {
  LaneSpan<float> values;
  int64_t count, k;
  const Stream* streams;
  uint32_t purpose, op;
  Lanes lanes;
};

// Values in rotated blocks, the largest first (federated/codecs/eden.cc), of kEdenChunk values at a time: a block of
// fewer is the last. "eden_norms" (of blocks, in order: squares), "eden_near" and "eden_far" (the transform's steps
// within chunks, behind the signs of `turn`, and between them), "eden_levels" (levels in the place of values, and
// scales), the transform again, and "eden_scale" (signs of turn 0, and the scale).
inline constexpr int64_t kEdenValues = 65536, kEdenChunk = 4096;
inline constexpr uint32_t kNoTurn = 2;
// Blocks of `count` values: the whole ones, a power of two for each upper bit of what is left, and the rest.
constexpr int64_t EdenBlocks(int64_t count) {
  int64_t blocks = count / kEdenValues;
  int64_t rest = count % kEdenValues;
  for (int64_t values = kEdenValues / 2; values >= kEdenChunk; values /= 2) {
    if (rest >= values) ++blocks, rest -= values;
  }
  return blocks + (rest > 0 ? 1 : 0);
}
constexpr int64_t EdenPadded(int64_t count) { return (count + kEdenChunk - 1) / kEdenChunk * kEdenChunk; }
struct EdenArguments {
  LaneSpan<float> values;    // EdenPadded, zeros behind `count`
  LaneSpan<double> squares;  // by block, as scales
  LaneSpan<float> scales;
  int64_t count;
  uint32_t turn;
  int32_t bits;
  float levels[16];
  const Stream* streams;
  uint32_t purpose, op;
  Lanes lanes;
};

}  // namespace rivulet::gpu
