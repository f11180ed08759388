// Shapes as tensors, tensors from shapes, and changes of shape that move no element. A compiled program knows all
// shapes, so there Shape, Size, Rank and BroadcastGradientArgs are constants.
#include <algorithm>
#include <cmath>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/tensor/float16.h"

namespace rivulet {
namespace {

Status ShapeShape(InferenceContext& c) {
  c.set_output(0, Shape({c.input(0).known_rank() ? c.input(0).rank() : kUnknownDim}));
  return absl::OkStatus();
}

Status ShapeNShape(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i)
    c.set_output(i, Shape({c.input(i).known_rank() ? c.input(i).rank() : kUnknownDim}));
  return absl::OkStatus();
}

Status FillShape(InferenceContext& c) {
  if (c.input(1).known_rank() && c.input(1).rank() != 0)
    return InvalidArgument("the value must be a scalar, not of shape {}", c.input(1).ToString());
  RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromInput(c, 0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

Status FillGradient(GradientContext& g) {
  GradientOps ops(g);
  const Output all_axes = ops.Op("Range", {ops.Int(0), ops.Op("Rank", {g.grad()}), ops.Int(1)});
  g.set_input_grad(1, ops.Sum(g.grad(), all_axes, /*keep_dims=*/false));
  return ops.status();
}

// The number of elements of Range, in the arithmetic of its type.
// In the type's own arithmetic, as a limit that a float cannot hold would give another number of elements than the
// kernel writes.
template <typename T>
StatusOr<int64_t> RangeSize(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  const T first = start.flat<T>()[0], last = limit.flat<T>()[0], step = delta.flat<T>()[0];
  if (step == T{0}) return InvalidArgument("a range needs a delta other than 0");
  if ((step > 0 && first >= last) || (step < 0 && first <= last)) return 0;
  double size = 0;
  if constexpr (std::is_integral_v<T>) {
    // Differences of integers in 128 bits: int64 extremes are 2^64 apart.
    const auto distance = static_cast<__int128>(last) - first;
    const auto wide = static_cast<__int128>(step);
    size = static_cast<double>((distance + wide - (wide > 0 ? 1 : -1)) / wide);
  } else {
    size = std::ceil(std::abs((static_cast<double>(last) - static_cast<double>(first)) / static_cast<double>(step)));
  }
  if (!(size <= 0x1p40)) return InvalidArgument("a range of more than 2^40 elements");
  return static_cast<int64_t>(size);
}

Status RangeShape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i)
    if (c.input(i).known_rank() && c.input(i).rank() != 0)
      return InvalidArgument("start, limit and delta must be scalars, but input {} has shape {}", i,
                             c.input(i).ToString());
  const Tensor *start = c.input_value(0), *limit = c.input_value(1), *delta = c.input_value(2);
  if (start == nullptr || limit == nullptr || delta == nullptr) {
    c.set_output(0, Shape({kUnknownDim}));
    return absl::OkStatus();
  }
  StatusOr<int64_t> size = 0;
  switch (start->dtype()) {
    case DType::kInt32:
      size = RangeSize<int32_t>(*start, *limit, *delta);
      break;
    case DType::kInt64:
      size = RangeSize<int64_t>(*start, *limit, *delta);
      break;
    case DType::kBFloat16:
      size = RangeSize<bfloat16>(*start, *limit, *delta);
      break;
    case DType::kFloat16:
      size = RangeSize<float16>(*start, *limit, *delta);
      break;
    case DType::kFloat32:
      size = RangeSize<float>(*start, *limit, *delta);
      break;
    case DType::kFloat64:
      size = RangeSize<double>(*start, *limit, *delta);
      break;
    default:
      return InvalidArgument("a range of {}", Name(start->dtype()));
  }
  RIVULET_RETURN_IF_ERROR(size.status());
  c.set_output(0, Shape({*size}));
  return absl::OkStatus();
}

Status LinSpaceShape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i)
    if (c.input(i).known_rank() && c.input(i).rank() != 0)
      return InvalidArgument("start, stop and num must be scalars, but input {} has shape {}", i,
                             c.input(i).ToString());
  RIVULET_ASSIGN_OR_RETURN(const auto num, KnownInteger(c, 2));
  if (num && (*num < 1 || *num > int64_t{1} << 40)) return InvalidArgument("num is {}, outside [1, 2^40]", *num);
  c.set_output(0, Shape({num ? *num : kUnknownDim}));
  return absl::OkStatus();
}

Status EnsureShapeShape(InferenceContext& c) {
  auto shape = Shape::Merge(c.input(0), c.attr<Shape>("shape"));
  if (!shape.ok())
    return InvalidArgument("the input {} has not the shape {} that is asked for", c.input(0).ToString(),
                           c.attr<Shape>("shape").ToString());
  c.set_output(0, *std::move(shape));
  return absl::OkStatus();
}

Status ReshapeShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromInput(c, 1, /*allow_minus_one=*/true));
  RIVULET_ASSIGN_OR_RETURN(auto sizes, KnownIntegers(c, 1));
  const Shape& x = c.input(0);
  if (sizes) {
    if (std::count(sizes->begin(), sizes->end(), -1) > 1)
      return InvalidArgument("the new shape {} has more than one size of -1", shape.ToString());
    int64_t known = 1;
    int inferred = -1;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape.dim(axis) == kUnknownDim) {
        inferred = axis;
      } else {
        RIVULET_ASSIGN_OR_RETURN(known, MultiplyDims(known, shape.dim(axis)));
      }
    }
    if (x.IsFullyKnown()) {
      RIVULET_ASSIGN_OR_RETURN(const int64_t elements, x.CheckedElements());
      if (inferred >= 0) {
        if (known == 0 ? elements != 0 : elements % known != 0)
          return InvalidArgument("{} with {} elements cannot be reshaped to {}", x.ToString(), elements,
                                 shape.ToString());
        shape.set_dim(inferred, known == 0 ? 0 : elements / known);
      } else if (known != elements) {
        return InvalidArgument("{} with {} elements cannot be reshaped to {} with {}", x.ToString(), elements,
                               shape.ToString(), known);
      }
    }
  }
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

Status ReshapeLikeInput(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.ReshapeLike(g.grad(), g.input(0)));
  return ops.status();
}

Status SqueezeShape(InferenceContext& c) {
  const Shape& x = c.input(0);
  const auto& squeeze_dims = c.attr<std::vector<int64_t>>("squeeze_dims");
  if (!x.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  std::vector<bool> squeezed(static_cast<size_t>(x.rank()), false);
  if (squeeze_dims.empty()) {
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (x.dim(axis) == kUnknownDim) {  // perhaps 1
        c.set_output(0, Shape::UnknownRank());
        return absl::OkStatus();
      }
      squeezed[static_cast<size_t>(axis)] = x.dim(axis) == 1;
    }
  }
  for (int64_t axis : squeeze_dims) {
    RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(axis, x.rank(), "squeeze axis"));
    if (x.dim(normal) != 1 && x.dim(normal) != kUnknownDim)
      return InvalidArgument("axis {} of {} has size {}; only an axis of size 1 can be squeezed", axis, x.ToString(),
                             x.dim(normal));
    squeezed[static_cast<size_t>(normal)] = true;
  }
  std::vector<int64_t> dims;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (!squeezed[static_cast<size_t>(axis)]) dims.push_back(x.dim(axis));
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

Status ExpandDimsShape(InferenceContext& c) {
  const Shape& x = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(auto axis, KnownInteger(c, 1));
  if (!x.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (!axis) {
    c.set_output(0, Shape(std::vector<int64_t>(static_cast<size_t>(x.rank() + 1), kUnknownDim)));
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const int normal, NormalizeAxis(*axis, x.rank() + 1));
  std::vector<int64_t> dims(x.dims().begin(), x.dims().end());
  dims.insert(dims.begin() + normal, 1);
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

Status BroadcastToShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape shape, ShapeFromInput(c, 1));
  const Shape& x = c.input(0);
  if (shape.known_rank() && x.known_rank()) {
    if (x.rank() > shape.rank())
      return InvalidArgument("{} cannot be broadcast to {}, which has fewer axes", x.ToString(), shape.ToString());
    for (int axis = 0; axis < x.rank(); ++axis) {
      const int64_t from = x.dim(axis), to = shape.dim(axis + shape.rank() - x.rank());
      if (from != 1 && from != kUnknownDim && to != kUnknownDim && from != to)
        return InvalidArgument("{} cannot be broadcast to {}: a dimension of {} cannot become {}", x.ToString(),
                               shape.ToString(), from, to);
    }
  }
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

Status BroadcastToGradient(GradientContext& g) {
  GradientOps ops(g);
  g.set_input_grad(0, ops.SumTo(g.grad(), g.input(0)));
  return ops.status();
}

// How many axes of each of two shapes a broadcast reduces: as long as the shapes are known.
Status BroadcastGradientArgsShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(auto s0, KnownIntegers(c, 0));
  RIVULET_ASSIGN_OR_RETURN(auto s1, KnownIntegers(c, 1));
  if (!s0 || !s1) {
    c.set_output(0, Shape({kUnknownDim}));
    c.set_output(1, Shape({kUnknownDim}));
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(Shape a, ShapeFromInput(c, 0));
  RIVULET_ASSIGN_OR_RETURN(Shape b, ShapeFromInput(c, 1));
  RIVULET_RETURN_IF_ERROR(Shape::Broadcast(a, b).status());
  const int rank = std::max(a.rank(), b.rank());
  int64_t reduced_a = 0, reduced_b = 0;
  for (int axis = 0; axis < rank; ++axis) {
    const int in_a = axis - (rank - a.rank()), in_b = axis - (rank - b.rank());
    const int64_t x = in_a < 0 ? 1 : a.dim(in_a), y = in_b < 0 ? 1 : b.dim(in_b);
    // An axis of size 1 in both needs no sum; one that is absent goes even where its size is 1.
    if (x == 1 && (y != 1 || in_a < 0)) ++reduced_a;
    if (y == 1 && (x != 1 || in_b < 0)) ++reduced_b;
  }
  c.set_output(0, Shape({reduced_a}));
  c.set_output(1, Shape({reduced_b}));
  return absl::OkStatus();
}

RIVULET_OP("Shape")
    .Input("input: T")
    .Output("output: out_type")
    .Attr("T: type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Shape(ShapeShape)
    .NotDifferentiable("its output is a shape")
    .Doc("The sizes of input's axes.");

RIVULET_OP("ShapeN")
    .Input("input: N * T")
    .Output("output: N * out_type")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Shape(ShapeNShape)
    .NotDifferentiable("its outputs are shapes")
    .Doc("The shapes of all inputs, as vectors.");

RIVULET_OP("Size")
    .Input("input: T")
    .Output("output: out_type")
    .Attr("T: type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Shape(ScalarShape)
    .NotDifferentiable("its output is a size")
    .Doc("The number of input's elements.");

RIVULET_OP("Rank")
    .Input("input: T")
    .Output("output: int32")
    .Attr("T: type")
    .Shape(ScalarShape)
    .NotDifferentiable("its output is a rank")
    .Doc("The number of input's axes.");

RIVULET_OP("Fill")
    .Input("dims: index_type")
    .Input("value: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("index_type: {int32, int64} = DT_INT32")
    .Shape(FillShape)
    .Gradient(FillGradient)
    .Doc("A tensor of shape dims, each element of which is value.");

RIVULET_OP("ZerosLike")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {half, bfloat16, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, variant}")
    .Shape(SameAsInput(0))
    .Gradient(NoGradient)
    .Doc("Zeros in the shape of x; of a list, one of as many elements, which are not set.");

RIVULET_OP("OnesLike")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Shape(SameAsInput(0))
    .Gradient(NoGradient)
    .Doc("Ones in the shape of x.");

RIVULET_OP("Range")
    .Input("start: Tidx")
    .Input("limit: Tidx")
    .Input("delta: Tidx")
    .Output("output: Tidx")
    .Attr("Tidx: {half, bfloat16, float, double, int32, int64} = DT_INT32")
    .Shape(RangeShape)
    .NotDifferentiable("its length depends on its inputs")
    .Doc("start, start + delta, … up to before limit. All three must be known when a program is compiled.");

RIVULET_OP("LinSpace")
    .Input("start: T")
    .Input("stop: T")
    .Input("num: Tidx")
    .Output("output: T")
    .Attr("T: floattype")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(LinSpaceShape)
    .NotDifferentiable("TensorFlow defines no gradient by start and stop")
    .Doc(
        "num values at equal distances from start to stop, both included. num must be known when a program is "
        "compiled.");

Status BroadcastArgsShape(InferenceContext& c) {
  int64_t most = 0;
  for (int i = 0; i < 2; ++i) {
    RIVULET_ASSIGN_OR_RETURN(const Shape sizes, c.WithRank(i, 1));
    most = sizes.dim(0) == kUnknownDim || most == kUnknownDim ? kUnknownDim : std::max(most, sizes.dim(0));
  }
  c.set_output(0, Shape({most}));
  return absl::OkStatus();
}

Status UnravelShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape dims, c.WithRank(1, 1));
  const Shape& indices = c.input(0);
  if (!indices.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (indices.rank() > 1) return InvalidArgument("indices {} are neither a number nor a vector", indices.ToString());
  std::vector<int64_t> sizes = {dims.dim(0)};
  if (indices.rank() == 1) sizes.push_back(indices.dim(0));
  c.set_output(0, Shape(std::move(sizes)));
  return absl::OkStatus();
}

RIVULET_OP("BroadcastArgs")
    .Input("s0: T")
    .Input("s1: T")
    .Output("r0: T")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(BroadcastArgsShape)
    .NotDifferentiable("its output is a shape")
    .Doc("The shape of tensors of shapes s0 and s1 broadcast together.");

RIVULET_OP("UnravelIndex")
    .Input("indices: Tidx")
    .Input("dims: Tidx")
    .Output("output: Tidx")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(UnravelShape)
    .NotDifferentiable("its output is an index")
    .Doc("For each place in a flat tensor, its index along each axis of a tensor of shape dims.");

RIVULET_OP("EnsureShape")
    .Input("input: T")
    .Output("output: T")
    .Attr("shape: shape")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Shape(EnsureShapeShape)
    .Gradient(PassGradient)
    .Doc("Its input, which must have the given shape.");

RIVULET_OP("Snapshot")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Shape(SameAsInput(0))
    .Gradient(PassGradient)
    .Doc("Its input, unchanged.");

RIVULET_OP("PreventGradient")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("message: string = ''")
    .Shape(SameAsInput(0))
    .NotDifferentiable("its author forbids gradients through it")
    .Doc("Its input; a gradient through it is an error.");

RIVULET_OP("Reshape")
    .Input("tensor: T")
    .Input("shape: Tshape")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tshape: {int32, int64} = DT_INT32")
    .Shape(ReshapeShape)
    .Gradient(ReshapeLikeInput)
    .Doc("The same elements in another shape; one size of -1 follows from the others.");

RIVULET_OP("Squeeze")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("squeeze_dims: list(int) >= 0 = []")
    .Shape(SqueezeShape)
    .Gradient(ReshapeLikeInput)
    .Doc("Input without the given axes, or without all axes of size 1.");

RIVULET_OP("ExpandDims")
    .Input("input: T")
    .Input("dim: Tdim")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tdim: {int32, int64} = DT_INT32")
    .Shape(ExpandDimsShape)
    .Gradient(ReshapeLikeInput)
    .Doc("Input with an axis of size 1 inserted before axis dim.");

RIVULET_OP("BroadcastTo")
    .Input("input: T")
    .Input("shape: Tidx")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(BroadcastToShape)
    .Gradient(BroadcastToGradient)
    .Doc("Input repeated along its axes of size 1, and along new leading axes, to the given shape.");

RIVULET_OP("BroadcastGradientArgs")
    .Input("s0: T")
    .Input("s1: T")
    .Output("r0: T")
    .Output("r1: T")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(BroadcastGradientArgsShape)
    .NotDifferentiable("its outputs are axes")
    .Doc("The axes of the broadcast of s0 and s1 over which a gradient is summed to come back to s0, and to s1.");

}  // namespace
}  // namespace rivulet
