// Positions of a batch's examples within the tensors of a graph. Per-example gradients need them: they are defined only
// if no tensor between an example and its loss depends on another example.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/graph/graph.h"

namespace rivulet {

struct ExampleLayout {
  enum class Kind {
    kNone,      // depends on no example
    kExamples,  // each element belongs to one example
    kMixed,     // an element depends on several examples, or may do so
  };
  Kind kind = Kind::kNone;
  // kExamples: element f, in row-major order, belongs to example (f / stride) mod examples.
  int64_t stride = 0;
  // kMixed: the first node on the path that mixes examples, or whose op has no rule.
  const Node* mixer = nullptr;
  bool no_rule = false;

  static ExampleLayout None() { return {}; }
  static ExampleLayout Examples(int64_t stride) { return {Kind::kExamples, stride}; }
  bool none() const { return kind == Kind::kNone; }
  bool examples() const { return kind == Kind::kExamples; }
  bool mixed() const { return kind == Kind::kMixed; }
};

// The axis that holds the examples. Its size is outer · examples · inner, and an index is (outer, example, inner) in
// row-major order.
struct ExampleAxis {
  int axis = 0;
  int64_t outer = 1, inner = 1;
  bool operator==(const ExampleAxis&) const = default;
};

// The layouts of a graph's tensors, computed on demand and cached. Shapes must be known. Not thread-safe; nodes may be
// added to the graph meanwhile. Rules of ops are in example_layout.cc; an op without a rule counts as mixing.
class ExampleLayouts {
 public:
  // For batches of `examples`, at least 2.
  explicit ExampleLayouts(int64_t examples) : examples_(examples) {}
  int64_t examples() const { return examples_; }

  // Sets the layout of a known tensor: placeholders with the batch first, and others that the caller knows.
  void Mark(Output output, ExampleLayout layout) { known_[{output.node, output.port}] = layout; }
  ExampleLayout Of(Output output);

  // Returns the axis of the examples. nullopt: they are spread over several axes, or the shape is unknown.
  std::optional<ExampleAxis> AxisOf(const Shape& shape, int64_t stride) const;
  std::optional<ExampleAxis> AxisOf(Output output);
  // Returns the stride for a tensor of that shape with the examples at that axis.
  static int64_t StrideAt(const Shape& shape, const ExampleAxis& at);

 private:
  void Compute(const Node& node);

  const int64_t examples_;
  std::map<std::pair<const Node*, int>, ExampleLayout> known_;
};

// Describes a mixed tensor: "'bn/FusedBatchNormV3' (FusedBatchNormV3) mixes the examples of a batch".
std::string DescribeMixing(const ExampleLayout& layout);

}  // namespace rivulet
