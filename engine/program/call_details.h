// Details of a compiled program's calls for profiles, beyond the instruction list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/gpu_program.h"
#include "engine/program/program.h"

namespace rivulet {

struct CallDetails {
  // The C++ class: the name that a sampling profiler or a debugger shows, "rivulet::(anonymous
  // namespace)::SmallMatMul".
  std::string kernel;
  int64_t variable_bytes =
      0;  // of the variables' memory that it touches; a fused update may touch a part of a variable
};

// By instruction. About a microsecond each.
std::vector<CallDetails> CallDetailsOf(const Program& program);
// Without names: a device's kernels have functions of their own.
std::vector<CallDetails> CallDetailsOf(const GpuProgram& program);

}  // namespace rivulet
