// Runs one op's GPU kernel on the emulated device for several lanes, and the same op's CPU kernel for each of them.
//
// What CheckOnGpu holds of every case: each lane's results are the CPU's within the tolerance; they have the same bits
// alone, among three and among five; lanes that do not take part are not written, and nothing is written beside any
// tensor.
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
  // The op's inputs, for one lane; of resources the variables' values.
  std::function<std::vector<Tensor>(uint32_t seed)> inputs;
  AttrMap attrs = {};
  std::vector<int> constants = {};  // inputs that are known when the kernel is prepared, the same for all lanes
  std::vector<int> variables = {};  // inputs that are resources, in ascending order
  double tolerance = 0;             // of the difference, in units of max(1, |CPU's|); 0: the same bits, or both NaN
  bool draws = false;
  // Outputs that nobody may rely on and are not compared.
  std::vector<int> unspecified = {};
  std::string name;  // beside the op, where there are several
  GpuOptions device = {};
};

void CheckOnGpu(const OpCase& op_case);

// The error of preparing the GPU kernel.
Status PrepareOnGpu(const OpCase& op_case);

// [-1, 1), the same on every run.
Tensor Floats(Shape shape, uint32_t seed);
Tensor Doubles(Shape shape, uint32_t seed);
// The nearest that TF32 holds.
Tensor RoundedToTf32(Tensor floats);
// Whole numbers in [low, high).
Tensor Integers(DType dtype, Shape shape, uint32_t seed, int64_t low, int64_t high);
Tensor Ints(std::vector<int32_t> values);
Tensor Int(int32_t value);

}  // namespace rivulet::testing
