// Runs one op's GPU kernel on the emulated device for several lanes, and the same op's CPU kernel for each of them.
//
// CheckOnGpu checks each case. Each lane's results are within the tolerance of the CPU's. They have the same bits
// with one, three and five lanes. Lanes that do not take part are not written, and no bytes beside any tensor are
// written.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/gpu/gpu_device.h"
#include "engine/graph/attr.h"
#include "engine/program/kernel.h"
#include "engine/tensor/tensor.h"

namespace rivulet::testing {

struct OpCase {
  std::string op;
  // Makes the op's inputs for one lane; for resources, the variables' values.
  std::function<std::vector<Tensor>(uint32_t seed)> inputs;
  AttrMap attrs = {};
  std::vector<int> constants = {};  // inputs that are known when the kernel is prepared, the same for all lanes
  std::vector<int> variables = {};  // inputs that are resources, in ascending order
  double tolerance = 0;             // largest difference, in units of max(1, |CPU's|); 0: the same bits, or both NaN
  bool draws = false;
  // Outputs that are unspecified and not compared.
  std::vector<int> unspecified = {};
  std::string name;  // added to the op's name if it has several cases
  GpuOptions device = {};
};

void CheckOnGpu(const OpCase& op_case);

// Returns the error of preparing the GPU kernel.
Status PrepareOnGpu(const OpCase& op_case);

// Values in [-1, 1), the same in every run.
Tensor Floats(Shape shape, uint32_t seed);
Tensor Doubles(Shape shape, uint32_t seed);
// Rounds to the nearest TF32 values.
Tensor RoundedToTf32(Tensor floats);
// Whole numbers in [low, high).
Tensor Integers(DType dtype, Shape shape, uint32_t seed, int64_t low, int64_t high);
Tensor Ints(std::vector<int32_t> values);
Tensor Int(int32_t value);

}  // namespace rivulet::testing
