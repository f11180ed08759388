// Device kernel for 16-bit floats: the float kernel between conversions in scratch memory (via_float32.h).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/program/kernel.h"

namespace rivulet {

// A tensor that is converted to floats in scratch memory.
struct ConvertedTensor {
  size_t index;  // index among the inputs, outputs or variables
  DType dtype;   // the type outside
  int64_t count;
  size_t offset;  // offset in the scratch memory
};

struct Float32Conversions {
  Graph graph;  // has the node that `kernel` was prepared for
  std::unique_ptr<const Kernel> kernel;
  std::vector<ConvertedTensor> inputs, outputs, variables;
  size_t num_inputs = 0, num_outputs = 0, num_variables = 0;
  bool writes_variables = false;
  bool is_product = false;  // a product whose inputs are all 16-bit and unmodified
  bool below_one = false;   // results are in [0, 1), and must stay so when rounded
};

// The largest number below one.
inline float LargestBelowOne(DType dtype) { return dtype == DType::kBFloat16 ? 1.0f - 0x1p-8f : 1.0f - 0x1p-11f; }

std::unique_ptr<const Kernel> NewGpuViaFloat32(Float32Conversions conversions);

// For a float kernel that is a function of elements (gpu_elements.h): conversions are made as elements are read and
// stored, without scratch memory. Null for any other kernel.
std::unique_ptr<const Kernel> NewElementsVia(const Float32Conversions& conversions);

}  // namespace rivulet
