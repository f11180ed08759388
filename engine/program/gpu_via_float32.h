// Device kernel for 16-bit floats: the float kernel between conversions in scratch memory (via_float32.h).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/program/kernel.h"

namespace rivulet {

// A tensor that passes through scratch memory, as floats.
struct ConvertedTensor {
  size_t index;  // among the inputs, outputs or variables
  DType dtype;   // what it is outside
  int64_t count;
  size_t offset;  // into the scratch
};

struct Float32Conversions {
  Graph graph;  // holds the node that `kernel` was prepared for
  std::unique_ptr<const Kernel> kernel;
  std::vector<ConvertedTensor> inputs, outputs, variables;
  size_t num_inputs = 0, num_outputs = 0, num_variables = 0;
  bool writes_variables = false;
  bool is_product = false;  // of inputs that are all of 16 bits, and nothing of its own between
  bool below_one = false;   // its results lie in [0, 1), also when they are rounded
};

// The largest number below one.
inline float LargestBelowOne(DType dtype) { return dtype == DType::kBFloat16 ? 1.0f - 0x1p-8f : 1.0f - 0x1p-11f; }

std::unique_ptr<const Kernel> NewGpuViaFloat32(Float32Conversions conversions);

// A kernel of floats that is a function of elements (gpu_elements.h) needs no memory for the conversions: they are made
// as elements are read and stored. Null for any other.
std::unique_ptr<const Kernel> NewElementsVia(const Float32Conversions& conversions);

}  // namespace rivulet
