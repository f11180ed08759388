// Compilation of a program that several lanes run at once (engine/program/lanes.h).
#pragma once

#include <memory>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/lanes.h"
#include "engine/program/program.h"

namespace rivulet {

// As CompileProgram, whose errors it has. UNIMPLEMENTED also: what lanes cannot run, or within a memory budget.
StatusOr<std::shared_ptr<const LaneProgram>> CompileLanes(const Graph& graph, const Signature& signature,
                                                          const CompileOptions& options = {});

}  // namespace rivulet
