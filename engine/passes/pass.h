// A pass rewrites a graph into an equivalent one with less work. Each is one file and registers nothing: passes.cc
// lists them in execution order, because the order matters.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/passes/graph_editor.h"
#include "engine/program/kernel.h"
#include "engine/program/pass_options.h"

namespace rivulet {

// What a pass knows of the program to come, and where it says what it did.
struct PassContext {
  const KernelPolicy& kernels;
  const PassOptions& options;
  // One line per rewrite: "dense1/Relu: MatMul + BiasAdd + Relu in one".
  std::vector<std::string>& log;
};

struct Pass {
  std::string_view name;
  std::string_view doc;
  // The same bits as without it, for finite inputs that are no denormal numbers; else results may differ by `tolerance`
  // relative to the largest element.
  bool exact = true;
  double tolerance = 0;
  // Chosen by hand: it cannot be left out, or runs elsewhere (in the lowering of the program).
  bool optional = true;
  // After all others and once, or its work would be merged again.
  bool last = false;
  // Null for those that run elsewhere.
  Status (*run)(GraphEditor& graph, PassContext& context) = nullptr;
};

// All passes, in the order in which they run.
std::span<const Pass> Passes();

// NOT_FOUND names the nearest; INVALID_ARGUMENT for one that cannot be left out.
Status CheckPassOptions(const PassOptions& options);

// The passes, one per file.
Status InlineFunctions(GraphEditor& graph, PassContext& context);
Status SimplifyShapes(GraphEditor& graph, PassContext& context);
Status SimplifyArithmetic(GraphEditor& graph, PassContext& context);
Status MergeCommonSubexpressions(GraphEditor& graph, PassContext& context);
Status RecogniseSoftmaxLoss(GraphEditor& graph, PassContext& context);
Status ChooseLayout(GraphEditor& graph, PassContext& context);
Status LowerForGpu(GraphEditor& graph, PassContext& context);
Status FuseProducts(GraphEditor& graph, PassContext& context);
Status FusePooling(GraphEditor& graph, PassContext& context);
Status FuseNormalization(GraphEditor& graph, PassContext& context);
Status RecomputeWithinBudget(GraphEditor& graph, PassContext& context);

}  // namespace rivulet
