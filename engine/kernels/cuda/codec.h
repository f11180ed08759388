// Encoding and decoding of all lanes' updates on the device. The result equals the bytes of federated/codecs decoded by
// the aggregator, to the bit, but no bytes are made. Each lane's part is copied in wire order ("send_values"); the
// codec's kernels then replace each value by its decoded one.
//
// A codec with random rounding draws numbers in order, and none for a block of zeros. The draws of the preceding blocks
// are counted first, and then each value draws the number at its position. Sums that the host adds in order are added
// by one thread of each lane, or of each of its blocks.
//
// `lanes` are the lanes of these arguments' kernels: the grid's z, except for kernels with one block per lane.
#pragma once

#include <cstdint>

#include "engine/kernels/cuda/lane_span.h"
#include "engine/kernels/cuda/random.h"

namespace rivulet::gpu {

// "send_values": to[i] = value i of a run (values[i], or values[i] − minus[i]) times the lane's factor (clip.h), and
// zeros from `count` to `padded`. If `left_out` is not null, it holds the client's error feedback: it is added to the
// value, and then replaced by the sum.
struct SendValuesArguments {
  LaneSpan<const float> values;
  const float* minus;        // null: nothing is subtracted
  const double* factors;     // by lane number; null: 1
  LaneSpan<float> left_out;  // null: no error feedback
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

// "codec_places": replaces each of `blocks` counts by the sum of those before it, and appends the total.
struct CodecPlacesArguments {
  LaneSpan<int64_t> counts;  // blocks + 1
  int64_t blocks;
  Lanes lanes;
};

// "codec_scales", "codec_levels": integer multiples of a scale per block of 64 or 256 values: the block's largest
// magnitude over `levels` (int4, int8), or its norm over `levels` (qsgd and elias). Between the two kernels,
// "codec_places" processes `counts`, the draws of each block.
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

// "sign_scale", "sign_values": one scale for all values.
struct SignCodecArguments {
  LaneSpan<float> values;
  LaneSpan<float> scale;
  int64_t count;
  Lanes lanes;
};

// Finds the smallest of the k largest magnitudes, and the number of values of exactly that magnitude among the k, by
// counting: first the upper bits ("top_k_clear", "top_k_count", "top_k_cut" with `lower` false), then the lower bits of
// values with the same upper ones (again, `lower`). "top_k_ties" counts values of exactly that magnitude in each block
// of kTopKBlock; "codec_places" sums these, and "top_k_keep" sets all values but the k to zero.
inline constexpr int32_t kTopKLowBits = 15;
inline constexpr int64_t kTopKBins = int64_t{1} << 16, kTopKBlock = 4096;
constexpr int64_t TopKBlocks(int64_t count) { return (count + kTopKBlock - 1) / kTopKBlock; }
struct TopKCut {
  uint32_t high, least;
  int64_t left;  // remaining k during the search; then the number of values equal to `least` to send
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

// "random_k": k values drawn independently of their contents, times count / k; all others become zeros.
struct RandomKArguments {
  LaneSpan<float> values;
  int64_t count, k;
  const Stream* streams;
  uint32_t purpose, op;
  Lanes lanes;
};

// Values in rotated blocks, the largest first (federated/codecs/eden.cc), in chunks of kEdenChunk values; a shorter
// block is the last. The kernels, in order: "eden_norms" (squares, by block in order), "eden_near" and "eden_far" (the
// transform's steps within chunks, after the signs of `turn`, and between chunks), "eden_levels" (replaces values by
// levels, and computes scales), the transform again, and "eden_scale" (signs of turn 0, and the scale).
inline constexpr int64_t kEdenValues = 65536, kEdenChunk = 4096;
inline constexpr uint32_t kNoTurn = 2;
// Number of blocks for `count` values: the full ones, one per upper bit of the rest, and the remainder.
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
  LaneSpan<float> values;    // EdenPadded elements, zeros after `count`
  LaneSpan<double> squares;  // by block, like scales
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
