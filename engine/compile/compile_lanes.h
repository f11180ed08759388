// Compilation of a program that several lanes run at once (engine/program/lanes.h).
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/lanes.h"
#include "engine/program/program.h"

namespace rivulet {

// Like CompileProgram, with the same errors. UNIMPLEMENTED: lanes cannot run the program, or a memory budget is set.
StatusOr<std::shared_ptr<const LaneProgram>> CompileLanes(const Graph& graph, const Signature& signature,
                                                          const CompileOptions& options = {});

}  // namespace rivulet
