// Known tensor values while a graph is still being built. Small integer tensors are known element by element
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

// What errors tell the user to do where a size is open, and where an input's value is needed.
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
  // FAILED_PRECONDITION: it depends on a placeholder, which `needed` then names, on a size that is open, on a variable
  // or on chance. RESOURCE_EXHAUSTED: it would take more than 256 MiB.
  StatusOr<Tensor> Value(Output output);
  // Whether it follows from constants and known sizes.
  bool Knows(Output output);
  // Why `element`, a symbol or an expression, is no number. Names what it depends on.
  Status Unknown(const Dimension& element);

  // Placeholders whose values were asked for and not known.
  const std::set<std::string>& needed() const { return needed_; }

 private:
  struct Cut {
    std::vector<Output> known;  // where the walk back from a value ends, in small tensors that are known
    const Node* unknown = nullptr;
    std::string open;  // the size that is not known, of a Shape
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
