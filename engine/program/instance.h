// Execution of a lowered program: a table of addresses, patched after a binding changed, and a loop over kernels.
#pragma once

#include <memory>
#include <vector>

#include "engine/program/lowering.h"
#include "engine/program/program.h"

namespace rivulet {

// A program from the result of lowering for `signature`.
std::shared_ptr<const Program> NewProgram(Signature signature, std::vector<TensorSpec> fetch_specs,
                                          LoweredProgram lowered);

// `lowered` belongs to `program`, which the instance keeps alive.
std::unique_ptr<Instance> NewInstance(std::shared_ptr<const Program> program, const LoweredProgram& lowered);

}  // namespace rivulet
