// Places of a batch's examples within the tensors of a graph. A gradient by example needs them: it is defined only
// where no tensor between an example and its loss depends on another example.
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
    kMixed,     // an element depends on several examples, or may
  };
  Kind kind = Kind::kNone;
  // kExamples: element f, in row-major order, belongs to example (f / stride) mod examples.
  int64_t stride = 0;
  // kMixed: the first node on the way that mixes examples, or whose op has no rule.
  const Node* mixer = nullptr;
  bool no_rule = false;

  static ExampleLayout None() { return {}; }
  static ExampleLayout Examples(int64_t stride) { return {Kind::kExamples, stride}; }
  bool none() const { return kind == Kind::kNone; }
  bool examples() const { return kind == Kind::kExamples; }
  bool mixed() const { return kind == Kind::kMixed; }
};

// The axis that holds the examples. Its size is outer · examples · inner, and an index of it is (outer, example,
// inner).
struct ExampleAxis {
  int axis = 0;
  int64_t outer = 1, inner = 1;
  bool operator==(const ExampleAxis&) const = default;
};

// The layouts of a graph's tensors, found on demand and kept. Shapes must be known. Not thread-safe; nodes may be added
// to the graph meanwhile. Rules of ops are in example_layout.cc; an op without one mixes.
class ExampleLayouts {
 public:
  // Of batches of `examples`, at least 2.
  explicit ExampleLayouts(int64_t examples) : examples_(examples) {}
  int64_t examples() const { return examples_; }

  // What is fed: placeholders with the batch first, and what a caller knows of other tensors.
  void Mark(Output output, ExampleLayout layout) { known_[{output.node, output.port}] = layout; }
  ExampleLayout Of(Output output);

  // nullopt: the examples are spread over several axes, or the shape is not known.
  std::optional<ExampleAxis> AxisOf(const Shape& shape, int64_t stride) const;
  std::optional<ExampleAxis> AxisOf(Output output);
  // The stride in a tensor of that shape, with the examples at that axis.
  static int64_t StrideAt(const Shape& shape, const ExampleAxis& at);

 private:
  void Compute(const Node& node);

  const int64_t examples_;
  std::map<std::pair<const Node*, int>, ExampleLayout> known_;
};

// "'bn/FusedBatchNormV3' (FusedBatchNormV3) mixes the examples of a batch": what is wrong with a mixed tensor.
std::string DescribeMixing(const ExampleLayout& layout);

}  // namespace rivulet
