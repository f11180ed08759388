// Known facts about shapes and values of small integer tensors, element by element, while a graph is built. An unknown
// size is a Dimension, an expression in symbols. `Shape` itself is unchanged; the symbols are kept here, in a side
// table by output. Shape functions, the ONNX importer and the GraphDef importer use this one evaluator.
//
//   x: [?,16,4,4]    Shape(x) = (batch, 16, 4, 4)    Concat(Shape(x)[0:1], -1) = (batch, -1)
//
// A tensor of int32, int64 or bool with at most 256 elements has a value for each of them: a number, an expression, or
// a symbol for an unknown. Two elements with equal expressions are equal for every feed.
//
// Facts are cached by node. A graph may grow meanwhile; nodes with cached facts must not change. Not thread-safe.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/graph/dimension.h"
#include "engine/graph/inference.h"

namespace rivulet {

inline constexpr int64_t kMaxSymbolicElements = 256;

// The elements of a small tensor, in the order in which a tensor has them.
struct Elements {
  Shape shape;  // fully known
  std::vector<Dimension> values;
};

// What a symbol stands for: the size of an axis of a tensor, or an element of its value.
struct Symbol {
  Output output;
  int index = 0;
  bool is_size = true;
  bool fed = false;  // an element that depends on values that are fed, on variables or on chance
  std::string name;  // "" where nobody has named it
};

class SymbolicValues {
 public:
  enum class Sizes : uint8_t {
    kOwn,        // an unknown size is a symbol of its own: cheap, as each node that is added asks
    kFollowOps,  // it is what the op makes of its inputs' sizes, where that is an expression in them
  };
  SymbolicValues(ShapeLookup shape_of, Sizes sizes) : shape_of_(std::move(shape_of)), sizes_(sizes) {}
  SymbolicValues(const SymbolicValues&) = delete;
  SymbolicValues& operator=(const SymbolicValues&) = delete;

  // Axis `axis` of `output` has the size called `name`: equal names are one symbol. Before anything is asked of the
  // output; without effect where the size is known.
  void Name(Output output, int axis, std::string_view name);

  // The sizes of an output's axes; nullptr: its rank is unknown. Valid until the next call.
  const std::vector<Dimension>* SizesOf(Output output);
  // The elements of a small tensor; nullptr: it is none, or its shape is unknown. Valid as long as this object.
  const Elements* ValueOf(Output output);
  // The same where every element is a number.
  std::optional<Tensor> NumbersOf(Output output);

  const Symbol& symbol(int id) const { return symbols_[static_cast<size_t>(id) / 2]; }
  // "4·batch", "axis 2 of 'x'", "element 0 of 'k'".
  std::string Describe(const Dimension& dimension) const;
  // Whether the value depends on what is fed, on variables or on chance, and not on shapes alone.
  bool IsFed(const Node& node);

 private:
  struct Facts {
    std::vector<std::optional<std::vector<Dimension>>> sizes;
    std::vector<std::optional<Elements>> values;
  };
  bool HasElements(Output output) const;
  bool NeedsInput(const Node& node, Output input) const;
  const Facts& Visit(const Node& node);
  Facts Compute(const Node& node);
  Dimension NewSymbol(Output output, int index, bool is_size, bool fed);
  Dimension SizeSymbol(Output output, int axis);
  std::vector<Dimension> OwnSizes(Output output);
  // The op's shape function at points at which every symbol has a number, and the expressions that fit them.
  void FollowOp(const Node& node, Facts& facts);

  ShapeLookup shape_of_;
  Sizes sizes_;
  std::vector<Symbol> symbols_;
  std::unordered_map<std::string, int> named_;
  std::unordered_map<const Node*, std::vector<std::pair<std::pair<int, int>, int>>> bound_;  // (port, axis), symbol
  std::unordered_map<const Node*, Facts> facts_;
  std::unordered_map<const Node*, std::vector<std::optional<std::vector<Dimension>>>> own_sizes_;  // Sizes::kOwn
  std::unordered_map<const Node*, bool> fed_;
  std::vector<Dimension> answer_;
};

// The elements of output `port` that follow from those of the inputs by the op's meaning, nullptr for an input that has
// none; `sizes` are those of input 0, where the op asks for them (Shape, Size, Rank). An element that does not follow
// is nullopt, and so is the whole where there is no rule for the op. `shape` is the output's.
struct ElementRule {
  const Node& node;
  int port;
  const Shape& shape;
  std::span<const Elements* const> inputs;
  const std::vector<Dimension>* sizes;
};
using MaybeElements = std::optional<std::vector<std::optional<Dimension>>>;
MaybeElements MovedElements(const ElementRule& rule);     // element_moves.cc: slices, joins, repeats
MaybeElements ComputedElements(const ElementRule& rule);  // element_arithmetic.cc

}  // namespace rivulet
