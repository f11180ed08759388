// A pass rewrites a graph into an equivalent one with less work. Each is one file without registration: passes.cc lists
// them in execution order, because the order matters.
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

// A pass's information about the program, and its log.
struct PassContext {
  const KernelPolicy& kernels;
  const PassOptions& options;
  // One line per rewrite: "dense1/Relu: MatMul + BiasAdd + Relu in one".
  std::vector<std::string>& log;
};

struct Pass {
  std::string_view name;
  std::string_view doc;
  // Results are equal to the bit for finite inputs that are not denormal; otherwise they may differ by `tolerance`
  // relative to the largest element.
  bool exact = true;
  double tolerance = 0;
  // False for passes that cannot be excluded, or run elsewhere (in lowering).
  bool optional = true;
  // Runs once, after all others, which would otherwise merge its work again.
  bool last = false;
  // Null for passes that run elsewhere.
  Status (*run)(GraphEditor& graph, PassContext& context) = nullptr;
};

// All passes, in execution order.
std::span<const Pass> Passes();

// NOT_FOUND names the nearest pass; INVALID_ARGUMENT for one that cannot be excluded.
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
