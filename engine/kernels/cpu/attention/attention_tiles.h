// Tiled attention of one head without mask and softcap, for floats. A tile has as many queries as the register block
// has rows. It is computed from the products with the keys to the finished output while its scores are in the nearest
// cache. Keys invisible to all queries of a tile are not read. A query's result does not depend on its tile.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rivulet {

// Maximum of queries per tile: the rows of the largest register block of any processor.
constexpr int64_t kTileQueries = 16;
// Rows of scores, and of their gradients, per summation step of the gradients of keys and values.
constexpr int64_t kGradientQueries = 48;

struct AttentionHead {
  int64_t time = 0, keys = 0, depth = 0, width = 0;
  // Query t sees the first clamp(first_visible + t · further, 0, keys) keys: `further` is 1 if it is causal, or 0.
  int64_t first_visible = 0, further = 0;
  float scale = 1;  // positive

  // Floats from one row of transposed keys or of scores to the next: whole pairs of the widest vectors, and one more
  // vector, because the last block of keys may extend into it.
  static constexpr int64_t kVectorFloats = 16;
  int64_t stride() const {
    constexpr int64_t kPair = 2 * kVectorFloats;
    return (keys + kPair - 1) / kPair * kPair + kVectorFloats;
  }
  int64_t transposed_floats(int64_t depth_or_width) const { return depth_or_width * stride(); }
  int64_t score_floats() const { return kTileQueries * stride(); }
  int64_t gradient_floats() const { return 2 * kGradientQueries * stride(); }
};

// to[size, stride] = from[keys, size] transposed, with zeros after the keys.
void TransposeOfHead(const AttentionHead& head, const float* from, int64_t size, float* to);

// `transposed_keys` from TransposeOfHead; `scores` has score_floats(). If query t sees nothing, or all its scores are
// -infinity, log_sum[t] is -infinity and its output is 0.
void AttentionOfHead(const AttentionHead& head, const float* query, const float* transposed_keys, const float* value,
                     float* output, float* log_sum, float* scores);

struct AttentionHeadGradients {
  const float *query, *key, *transposed_keys, *transposed_values, *output, *log_sum, *output_grad;
  float* query_grad;             // written
  float *key_grad, *value_grad;  // added to
  float* scores;                 // gradient_floats()
};
void AttentionGradientOfHead(const AttentionHead& head, const AttentionHeadGradients& g);

}  // namespace rivulet
