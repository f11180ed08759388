// Joining tensors along an axis, and taking them apart.
#include <algorithm>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

Status ConcatShape(InferenceContext& c) {
  const int count = c.num_inputs() - 1;
  RIVULET_ASSIGN_OR_RETURN(auto axis, KnownInteger(c, count));
  Shape merged = Shape::UnknownRank();  // all axes but the joined one agree
  int64_t joined = 0;
  for (int i = 0; i < count; ++i) {
    Shape next = c.input(i);
    if (!next.known_rank()) {
      joined = kUnknownDim;
      continue;
    }
    if (next.rank() == 0) return InvalidArgument("input {} is a scalar; scalars are joined by Pack", i);
    if (merged.known_rank() && merged.rank() != next.rank())
      return InvalidArgument("input {} has shape {}, but those before it have {} axes", i, next.ToString(),
                             merged.rank());
    if (axis) {
      RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, next.rank()));
      RIVULET_ASSIGN_OR_RETURN(joined, AddDims(joined, next.dim(normal)));
      next.set_dim(normal, kUnknownDim);
    } else {
      next = Shape(std::vector<int64_t>(static_cast<size_t>(next.rank()), kUnknownDim));
    }
    auto both = Shape::Merge(merged, next);
    if (!both.ok())
      return InvalidArgument("input {} of shape {} differs from those before it, {}, in an axis other than {}", i,
                             c.input(i).ToString(), merged.ToString(), *axis);
    merged = *std::move(both);
  }
  if (axis && merged.known_rank()) {
    RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, merged.rank()));
    merged.set_dim(normal, joined);
  }
  c.set_output(0, std::move(merged));
  return absl::OkStatus();
}

// With known sizes each part's place is a constant of the graph. ConcatOffset, which computes the places from shapes,
// is there only where it must be.
Status ConcatGradient(GradientContext& g) {
  GradientOps ops(g);
  const int count = static_cast<int>(g.node()->inputs().size()) - 1;
  if (count == 1) {
    g.set_input_grad(0, g.grad());
    return ops.status();
  }
  const auto axis = ConstantIntegers(g.input(count));
  bool sizes_known = axis.has_value();
  for (int i = 0; i < count && sizes_known; ++i) {
    const Shape& shape = g.input(i).shape();
    sizes_known = shape.known_rank();
    if (!sizes_known) break;
    RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis->front(), shape.rank()));
    sizes_known = shape.dim(normal) != kUnknownDim;
  }
  if (sizes_known) {
    int64_t offset = 0;
    for (int i = 0; i < count; ++i) {
      const int rank = g.input(i).shape().rank();
      RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis->front(), rank));
      std::vector<int64_t> begin(static_cast<size_t>(rank), 0), size(static_cast<size_t>(rank), -1);
      begin[static_cast<size_t>(normal)] = offset;
      size[static_cast<size_t>(normal)] = g.input(i).shape().dim(normal);
      offset += g.input(i).shape().dim(normal);
      g.set_input_grad(i, ops.Op("Slice", {g.grad(), ops.Ints(begin), ops.Ints(size)}));
    }
    return ops.status();
  }
  std::vector<Output> args = {ops.Op("Cast", {g.input(count)}, {{"DstT", DType::kInt32}})};
  for (int i = 0; i < count; ++i) args.push_back(ops.ShapeOf(g.input(i)));
  Node* offsets = ops.AddNode("ConcatOffset", args);
  for (int i = 0; i < count && offsets != nullptr; ++i)
    g.set_input_grad(i, ops.Op("Slice", {g.grad(), offsets->output(i), args[static_cast<size_t>(i) + 1]}));
  return ops.status();
}

Status ConcatOffsetShape(InferenceContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) {
    RIVULET_ASSIGN_OR_RETURN(Shape vector, c.WithRank(i, 1));
    c.set_output(i - 1, std::move(vector));
  }
  return absl::OkStatus();
}

Status SplitShape(InferenceContext& c) {
  const Shape& value = c.input(1);
  const int64_t parts = c.attr<int64_t>("num_split");
  RIVULET_ASSIGN_OR_RETURN(auto axis, KnownInteger(c, 0));
  Shape part = Shape::UnknownRank();
  if (value.known_rank() && axis) {
    RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, value.rank(), "split_dim"));
    part = value;
    const int64_t size = value.dim(normal);
    if (size != kUnknownDim) {
      if (size % parts != 0)
        return InvalidArgument("axis {} of {} has size {}, which is no multiple of num_split = {}", *axis,
                               value.ToString(), size, parts);
      part.set_dim(normal, size / parts);
    }
  } else if (value.known_rank()) {
    part = Shape(std::vector<int64_t>(static_cast<size_t>(value.rank()), kUnknownDim));
  }
  for (int64_t i = 0; i < parts; ++i) c.set_output(static_cast<int>(i), part);
  return absl::OkStatus();
}

// The gradients of all outputs, zeros where none arrived.
std::vector<Output> OutputGradients(GradientContext& g, GradientOps& ops) {
  std::vector<Output> gradients;
  for (int i = 0; i < static_cast<int>(g.node()->outputs().size()); ++i)
    gradients.push_back(g.grad(i) ? g.grad(i) : ops.ZerosLike(g.output(i)));
  return gradients;
}

Status SplitGradient(GradientContext& g) {
  GradientOps ops(g);
  std::vector<Output> args = OutputGradients(g, ops);
  args.push_back(g.input(0));
  g.set_input_grad(1, ops.Op("ConcatV2", std::move(args)));
  return ops.status();
}

// Sizes of -1 (one at most) follow from the others.
Status SplitVShape(InferenceContext& c) {
  const Shape& value = c.input(0);
  const int64_t parts = c.attr<int64_t>("num_split");
  RIVULET_ASSIGN_OR_RETURN(auto sizes, KnownIntegers(c, 1));
  RIVULET_ASSIGN_OR_RETURN(auto axis, KnownInteger(c, 2));
  if (!Shape::Compatible(c.input(1), Shape({parts})))
    return InvalidArgument("size_splits has shape {}, but num_split is {}", c.input(1).ToString(), parts);
  if (!value.known_rank() || !axis) {
    const Shape part = value.known_rank() ? Shape(std::vector<int64_t>(static_cast<size_t>(value.rank()), kUnknownDim))
                                          : Shape::UnknownRank();
    for (int64_t i = 0; i < parts; ++i) c.set_output(static_cast<int>(i), part);
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, value.rank(), "split_dim"));
  const int64_t size = value.dim(normal);
  int64_t given = 0, open = 0;
  for (int64_t i = 0; sizes && i < parts; ++i) {
    const int64_t part = (*sizes)[static_cast<size_t>(i)];
    if (part < -1) return InvalidArgument("size_splits holds {}, which is no size", part);
    if (part == -1) ++open;
    RIVULET_ASSIGN_OR_RETURN(given, AddDims(given, std::max<int64_t>(part, 0)));
  }
  if (open > 1) return InvalidArgument("size_splits holds -1 {} times; once is possible", open);
  if (sizes && size != kUnknownDim && (open == 0 ? given != size : given > size))
    return InvalidArgument("size_splits add up to {}, but axis {} of {} has size {}", given, *axis, value.ToString(),
                           size);
  for (int64_t i = 0; i < parts; ++i) {
    Shape part = value;
    part.set_dim(normal, kUnknownDim);
    if (sizes) {
      const int64_t own = (*sizes)[static_cast<size_t>(i)];
      part.set_dim(normal, own >= 0 ? own : size == kUnknownDim ? kUnknownDim : size - given);
    }
    c.set_output(static_cast<int>(i), std::move(part));
  }
  return absl::OkStatus();
}

Status SplitVGradient(GradientContext& g) {
  GradientOps ops(g);
  std::vector<Output> args = OutputGradients(g, ops);
  args.push_back(g.input(2));
  g.set_input_grad(0, ops.Op("ConcatV2", std::move(args)));
  return ops.status();
}

Status PackShape(InferenceContext& c) {
  Shape merged = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    auto next = Shape::Merge(merged, c.input(i));
    if (!next.ok())
      return InvalidArgument("input {} of shape {} differs from those before it, {}", i, c.input(i).ToString(),
                             merged.ToString());
    merged = *std::move(next);
  }
  if (merged.known_rank()) {
    RIVULET_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attr<int64_t>("axis"), merged.rank() + 1));
    std::vector<int64_t> dims(merged.dims().begin(), merged.dims().end());
    dims.insert(dims.begin() + axis, c.num_inputs());
    merged = Shape(std::move(dims));
  }
  c.set_output(0, std::move(merged));
  return absl::OkStatus();
}

Status PackGradient(GradientContext& g) {
  GradientOps ops(g);
  const auto count = static_cast<int64_t>(g.node()->inputs().size());
  Node* parts = ops.AddNode("Unpack", {g.grad()}, {{"num", count}, {"axis", g.node()->attr<int64_t>("axis")}});
  for (int i = 0; i < count && parts != nullptr; ++i) g.set_input_grad(i, parts->output(i));
  return ops.status();
}

Status UnpackShape(InferenceContext& c) {
  const Shape& value = c.input(0);
  const int64_t count = c.attr<int64_t>("num");
  Shape part = Shape::UnknownRank();
  if (value.known_rank()) {
    if (value.rank() == 0) return InvalidArgument("a scalar cannot be unpacked");
    RIVULET_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(c.attr<int64_t>("axis"), value.rank()));
    if (value.dim(axis) != kUnknownDim && value.dim(axis) != count)
      return InvalidArgument("axis {} of {} has size {}, but num = {}", axis, value.ToString(), value.dim(axis), count);
    std::vector<int64_t> dims(value.dims().begin(), value.dims().end());
    dims.erase(dims.begin() + axis);
    part = Shape(std::move(dims));
  }
  for (int64_t i = 0; i < count; ++i) c.set_output(static_cast<int>(i), part);
  return absl::OkStatus();
}

Status UnpackGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.Op("Pack", OutputGradients(g, ops), {{"axis", g.node()->attr<int64_t>("axis")}}));
  return ops.status();
}

RIVULET_OP("ConcatV2")
    .Input("values: N * T")
    .Input("axis: Tidx")
    .Output("output: T")
    .Attr("N: int >= 1")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(ConcatShape)
    .Gradient(ConcatGradient)
    .Doc("The values joined along an axis. The axis must be known when a program is compiled.");

RIVULET_OP("ConcatOffset")
    .Input("concat_dim: int32")
    .Input("shape: N * shape_type")
    .Output("offset: N * shape_type")
    .Attr("N: int >= 2")
    .Attr("shape_type: {int32, int64} = DT_INT32")
    .Shape(ConcatOffsetShape)
    .NotDifferentiable("its outputs are positions")
    .Doc("Where tensors of the given shapes begin in their concatenation.");

RIVULET_OP("Split")
    .Input("split_dim: int32")
    .Input("value: T")
    .Output("output: num_split * T")
    .Attr("num_split: int >= 1")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Shape(SplitShape)
    .Gradient(SplitGradient)
    .Doc("value cut into num_split equal parts along an axis, which must be known when a program is compiled.");

RIVULET_OP("SplitV")
    .Input("value: T")
    .Input("size_splits: Tlen")
    .Input("split_dim: int32")
    .Output("output: num_split * T")
    .Attr("num_split: int >= 1")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tlen: {int32, int64} = DT_INT64")
    .Shape(SplitVShape)
    .Gradient(SplitVGradient)
    .Doc(
        "value cut along an axis into parts of the given sizes, of which one may be -1. Sizes and axis must be known "
        "when a program is compiled.");

RIVULET_OP("Pack")
    .Input("values: N * T")
    .Output("output: T")
    .Attr("N: int >= 1")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("axis: int = 0")
    .Shape(PackShape)
    .Gradient(PackGradient)
    .Doc("The values joined along a new axis.");

RIVULET_OP("Unpack")
    .Input("value: T")
    .Output("output: num * T")
    .Attr("num: int >= 0")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("axis: int = 0")
    .Shape(UnpackShape)
    .Gradient(UnpackGradient)
    .Doc("The slices of value along an axis, without that axis.");

}  // namespace
}  // namespace rivulet
