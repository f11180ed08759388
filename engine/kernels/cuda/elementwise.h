// Arguments of the elementwise kernels (elementwise.cu).
#pragma once

#include "engine/kernels/cuda/lane_span.h"
#include "engine/kernels/cuda/walk.h"

namespace rivulet::gpu {

struct UnaryArguments {
  LaneSpan<const void> x;
  LaneSpan<void> y;
  int64_t count;
  double parameter;  // a function's single attribute, alpha
  Lanes lanes;
};

struct BinaryArguments {
  LaneSpan<const void> a, b;
  LaneSpan<void> y;
  int64_t count;
  double parameter;
  Walk<3> walk;  // y, a, b
  Lanes lanes;
};

// For three operands: a choice by condition, or bounds.
struct TernaryArguments {
  LaneSpan<const void> a, b, c;
  LaneSpan<void> y;
  int64_t count;
  Walk<4> walk;  // y, a, b, c
  Lanes lanes;
};

// The sum of up to eight tensors of one shape, in order; more are summed in several calls, each with the sum so far as
// its first operand.
struct AddNArguments {
  static constexpr int kMost = 8;
  LaneSpan<const void> x[kMost];
  LaneSpan<void> y;
  int64_t count;
  int32_t inputs;
  Lanes lanes;
};

}  // namespace rivulet::gpu
