// Multi-head attention, built from ScaledDotProductAttention (ops/attention.cc documents it). Heads are adjacent in the
// last axis.
#pragma once

#include "engine/graph/scope.h"

namespace rivulet {

struct AttentionOptions {
  int64_t heads = 1;
  int64_t key_value_heads = 0;  // 0: as many as heads; otherwise a divisor of heads (grouped queries)
  bool causal = false;
  float scale = 0;    // 0: 1 / sqrt(depth of a head)
  float softcap = 0;  // 0: none
  Output mask;        // bool (true: visible) or added to the scores; broadcast to [batch, heads, time, keys]
};

// Builds attention. query is [batch, time, heads · depth], key [batch, keys, key_value_heads · depth], value [batch,
// keys, key_value_heads · width], all already projected; the result is [batch, time, heads · width]. Sizes other than
// batch, time and keys must be known. Errors are kept in the scope.
Output MultiHeadAttention(const Scope& scope, Output query, Output key, Output value, const AttentionOptions& options);

}  // namespace rivulet
