// Tensor values that are known while a graph is still being built. Small integer tensors are known element by element
// (engine/graph/symbolic_values.h). The engine computes other tensors that follow from constants and from those, so
// that a folded value equals the value of a run.
#pragma once

#include <map>
#include <set>
#include <string>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/graph/symbolic_values.h"

namespace rivulet::onnx {

// Advice in errors for an unknown size, and for a required value of an input.
struct Remedies {
  std::string size, value;  // "; give its sizes with --shape"
};

class KnownValues {
 public:
  explicit KnownValues(const Graph& graph, Remedies remedies = {})
      : graph_(graph),
        remedies_(std::move(remedies)),
        symbols_([](Output output) -> const Shape& { return output.shape(); }, SymbolicValues::Sizes::kFollowOps) {}

  SymbolicValues& symbols() { return symbols_; }
  // Returns the value. FAILED_PRECONDITION: it depends on a placeholder, which is added to `needed`, an unknown size, a
  // variable or random numbers. RESOURCE_EXHAUSTED: it would take more than 256 MiB.
  StatusOr<Tensor> Value(Output output);
  // Returns true if it follows from constants and known sizes.
  bool Knows(Output output);
  // Returns an error that explains why `element`, a symbol or expression, is not a number. Names its dependencies.
  Status Unknown(const Dimension& element);

  // Placeholders whose values were required and unknown.
  const std::set<std::string>& needed() const { return needed_; }

 private:
  struct Cut {
    std::vector<Output> known;  // small known tensors, where the search back from a value ends
    const Node* unknown = nullptr;
    std::string open;  // the unknown size, for a Shape
  };
  Cut CutBefore(Output output);
  Status WhyUnknown(const Cut& cut);

  const Graph& graph_;
  Remedies remedies_;
  SymbolicValues symbols_;
  std::map<std::pair<const Node*, int>, Tensor> values_;
  std::set<std::string> needed_;
};

}  // namespace rivulet::onnx
