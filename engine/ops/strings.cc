// Strings made of numbers, of other strings, and turned into numbers. What only moves or compares elements has strings
// among its types (shape_functions.h).
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

constexpr const char* kNoGradient = "strings carry no gradient";

// Scalars go with tensors of any one shape.
Status JoinShape(InferenceContext& c) {
  Shape all{};
  for (int i = 0; i < c.num_inputs(); ++i) {
    const Shape& input = c.input(i);
    if (input.known_rank() && input.rank() == 0) continue;
    if (all.known_rank() && all.rank() == 0) {
      all = input;
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(all, Shape::Merge(all, input));
  }
  c.set_output(0, std::move(all));
  return absl::OkStatus();
}

Status ReduceJoinShape(InferenceContext& c) {
  const Shape& input = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(const auto axes, KnownIntegers(c, 1));
  const bool keep = c.attr<bool>("keep_dims");
  if (!input.known_rank() || !axes) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  std::vector<bool> joined(static_cast<size_t>(input.rank()), false);
  for (const int64_t axis : *axes) {
    const int64_t at = axis < 0 ? axis + input.rank() : axis;
    if (at < 0 || at >= input.rank())
      return InvalidArgument("axis {} does not exist in a tensor of shape {}", axis, input.ToString());
    if (joined[static_cast<size_t>(at)]) return InvalidArgument("axis {} is joined twice", axis);
    joined[static_cast<size_t>(at)] = true;
  }
  std::vector<int64_t> dims;
  for (int axis = 0; axis < input.rank(); ++axis) {
    if (!joined[static_cast<size_t>(axis)])
      dims.push_back(input.dim(axis));
    else if (keep)
      dims.push_back(1);
  }
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

Status SubstrShape(InferenceContext& c) {
  for (const int i : {1, 2}) {
    const Shape& place = c.input(i);
    const bool scalar = place.known_rank() && place.rank() == 0;
    if (!scalar && !Shape::Compatible(place, c.input(0)))
      return InvalidArgument("{} must be a scalar or of the shape of input, {}, not {}", i == 1 ? "pos" : "len",
                             c.input(0).ToString(), place.ToString());
  }
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Status SplitShape(InferenceContext& c) {
  RIVULET_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1}));
  c.set_output(0, Shape({kUnknownDim, 2}));
  c.set_output(1, Shape({kUnknownDim}));
  c.set_output(2, Shape({2}));
  return absl::OkStatus();
}

RIVULET_OP("AsString")
    .Input("input: T")
    .Output("output: string")
    .Attr("T: {float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, string}")
    .Attr("precision: int = -1")
    .Attr("scientific: bool = false")
    .Attr("shortest: bool = false")
    .Attr("width: int = -1")
    .Attr("fill: string = ''")
    .Shape(SameAsInput(0))
    .NotDifferentiable(kNoGradient)
    .Doc(
        "Each element as text, in the formats of C's printf: %f, with scientific %e, with shortest %g; %d; true, "
        "false.");

RIVULET_OP("StringToNumber")
    .Input("string_tensor: string")
    .Output("output: out_type")
    .Attr("out_type: {float, double, int32, int64} = DT_FLOAT")
    .Shape(SameAsInput(0))
    .NotDifferentiable(kNoGradient)
    .Doc("The number that each text says; any other text is an error that names it.");

RIVULET_OP("StringJoin")
    .Input("inputs: N * string")
    .Output("output: string")
    .Attr("N: int >= 0")
    .Attr("separator: string = ''")
    .Shape(JoinShape)
    .NotDifferentiable(kNoGradient)
    .Doc("The texts at the same place of all inputs as one, with separator between them. Scalars go with any shape.");

RIVULET_OP("ReduceJoin")
    .Input("inputs: string")
    .Input("reduction_indices: int32")
    .Output("output: string")
    .Attr("keep_dims: bool = false")
    .Attr("separator: string = ''")
    .Shape(ReduceJoinShape)
    .NotDifferentiable(kNoGradient)
    .Doc(
        "The texts along some axes as one, with separator between them; the axis that is named first changes fastest.");

RIVULET_OP("StringLength")
    .Input("input: string")
    .Output("output: int32")
    .Attr("unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'")
    .Shape(SameAsInput(0))
    .NotDifferentiable(kNoGradient)
    .Doc("How many bytes, or UTF-8 characters, each text has.");

RIVULET_OP("Substr")
    .Input("input: string")
    .Input("pos: T")
    .Input("len: T")
    .Output("output: string")
    .Attr("T: {int32, int64}")
    .Attr("unit: {'BYTE'} = 'BYTE'")
    .Shape(SubstrShape)
    .NotDifferentiable(kNoGradient)
    .Doc("The len bytes of each text from pos on, as many as there are. Below 0, pos counts from the end.");

#define RIVULET_TEXT_OP(name) \
  RIVULET_OP(name).Input("input: string").Output("output: string").Shape(SameAsInput(0)).NotDifferentiable(kNoGradient)

RIVULET_TEXT_OP("StringLower").Attr("encoding: {''} = ''").Doc("The letters A to Z as a to z.");
RIVULET_TEXT_OP("StringUpper").Attr("encoding: {''} = ''").Doc("The letters a to z as A to Z.");
RIVULET_TEXT_OP("StringStrip").Doc("Each text without white space at its ends.");

RIVULET_OP("StringToHashBucketFast")
    .Input("input: string")
    .Output("output: int64")
    .Attr("num_buckets: int >= 1")
    .Shape(SameAsInput(0))
    .NotDifferentiable(kNoGradient)
    .Doc("FarmHash's Fingerprint64 of each text modulo num_buckets.");

RIVULET_OP("StringSplitV2")
    .Input("input: string")
    .Input("sep: string")
    .Output("indices: int64")
    .Output("values: string")
    .Output("shape: int64")
    .Attr("maxsplit: int = -1")
    .Shape(SplitShape)
    .NotDifferentiable(kNoGradient)
    .Doc(
        "The parts of each text between separators, as a sparse matrix: a row for each text. An empty sep means runs "
        "of "
        "white space. maxsplit >= 0 splits so often at most.");

}  // namespace
}  // namespace rivulet
