// What can be said of a tensor's value while a graph is still being built: what follows from constants. The engine
// computes it, so that a folded value is what a run would give.
#pragma once

#include <map>
#include <set>
#include <string>

#include "engine/base/status.h"
#include "engine/graph/graph.h"

namespace rivulet::onnx {

class KnownValues {
 public:
  explicit KnownValues(const Graph& graph) : graph_(graph) {}

  // FAILED_PRECONDITION: it depends on a placeholder, which `needed` then names, on a variable or on chance.
  // RESOURCE_EXHAUSTED: it would take more than 256 MiB.
  StatusOr<Tensor> Value(Output output);
  // Whether it follows from constants.
  bool Knows(Output output) const;

  // Placeholders whose values were asked for and not known.
  const std::set<std::string>& needed() const { return needed_; }

 private:
  // The first node on which `output` depends and that has no value yet; null when there is none.
  const Node* Unknown(Output output, std::set<std::string>* placeholders) const;

  const Graph& graph_;
  std::map<std::pair<const Node*, int>, Tensor> values_;
  std::set<std::string> needed_;
};

}  // namespace rivulet::onnx
