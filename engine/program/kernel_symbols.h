// The C++ classes behind a program's instructions: the names that a sampling profiler or a debugger shows for them.
#pragma once

#include <string>
#include <vector>

#include "engine/program/program.h"

namespace rivulet {

// By instruction: "rivulet::(anonymous namespace)::SmallMatMul". Costs about a microsecond each; for profiles.
std::vector<std::string> KernelSymbols(const Program& program);

}  // namespace rivulet
