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

// The elements of a small tensor, in row-major order.
struct Elements {
  Shape shape;  // fully known
  std::vector<Dimension> values;
};

// Meaning of a symbol: the size of a tensor's axis, or an element of its value.
struct Symbol {
  Output output;
  int index = 0;
  bool is_size = true;
  bool fed = false;  // an element that depends on feeds, variables or random numbers
  std::string name;  // "" if it has no name
};

class SymbolicValues {
 public:
  enum class Sizes : uint8_t {
    kOwn,        // an unknown size is a new symbol: cheap, for each added node
    kFollowOps,  // an unknown size is an expression in the op's input sizes, if possible
  };
  SymbolicValues(ShapeLookup shape_of, Sizes sizes) : shape_of_(std::move(shape_of)), sizes_(sizes) {}
  SymbolicValues(const SymbolicValues&) = delete;
  SymbolicValues& operator=(const SymbolicValues&) = delete;

  // Names the size of axis `axis` of `output`: equal names are one symbol. Call before any question about the output;
  // no effect if the size is known.
  void Name(Output output, int axis, std::string_view name);

  // The sizes of an output's axes; nullptr: its rank is unknown. Valid until the next call.
  const std::vector<Dimension>* SizesOf(Output output);
  // The elements of a small tensor; nullptr: not small, or its shape is unknown. Valid as long as this object.
  const Elements* ValueOf(Output output);
  // The same if every element is a number; else nullopt.
  std::optional<Tensor> NumbersOf(Output output);

  const Symbol& symbol(int id) const { return symbols_[static_cast<size_t>(id) / 2]; }
  // "4·batch", "axis 2 of 'x'", "element 0 of 'k'".
  std::string Describe(const Dimension& dimension) const;
  // Returns true if the value depends on feeds, variables or random numbers, instead of shapes alone.
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
  // Evaluates the op's shape function at points with numbers for all symbols, and finds expressions that fit them.
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

// The elements of output `port` that follow from the inputs' elements by the op's meaning. An input without known
// elements is nullptr. `sizes` are those of input 0, if the op needs them (Shape, Size, Rank). Unknown elements are
// nullopt, and so is the result if there is no rule for the op. `shape` is the output's.
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
