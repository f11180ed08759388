// Details of a compiled program's calls for profiles, beyond the instruction list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/gpu_program.h"
#include "engine/program/program.h"

namespace rivulet {

struct CallDetails {
  // The C++ class, as shown by a sampling profiler or
  // debugger: "rivulet::(anonymous namespace)::SmallMatMul".
  std::string kernel;
  int64_t variable_bytes =
      0;  // bytes of its variables' memory that it accesses; a fused update may access only a part of a variable
};

// Details by instruction. About a microsecond each.
std::vector<CallDetails> CallDetailsOf(const Program& program);
// Without class names: a device's kernels are separate functions.
std::vector<CallDetails> CallDetailsOf(const GpuProgram& program);

}  // namespace rivulet
