#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 40;

}  // namespace

ShapeFn SameAsInput(int input) {
  return [input](InferenceContext& c) {
    c.set_output(0, c.input(input));
    return absl::OkStatus();
  };
}

Status ScalarShape(InferenceContext& c) {
  c.set_output(0, Shape{});
  return absl::OkStatus();
}

Status BroadcastShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(Shape shape, Shape::Broadcast(c.input(0), c.input(1)));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

Status AllSameShape(InferenceContext& c) {
  Shape merged = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    auto next = Shape::Merge(merged, c.input(i));
    if (!next.ok())
      return InvalidArgument("all inputs must have one shape, but input {} is {} and those before it {}", i,
                             c.input(i).ToString(), merged.ToString());
    merged = *std::move(next);
  }
  c.set_output(0, std::move(merged));
  return absl::OkStatus();
}

Status CheckScalars(const InferenceContext& c, std::initializer_list<int> inputs) {
  for (int i : inputs)
    if (c.input(i).known_rank() && c.input(i).rank() != 0)
      return InvalidArgument("input {} must be a scalar, not of shape {}", i, c.input(i).ToString());
  return absl::OkStatus();
}

Status NoOutputs(InferenceContext&) { return absl::OkStatus(); }

StatusOr<std::optional<std::vector<int64_t>>> KnownIntegers(const InferenceContext& c, int i) {
  if (c.input(i).known_rank() && c.input(i).rank() > 1)
    return InvalidArgument("input {} must be a vector or a scalar of integers, not of shape {}", i,
                           c.input(i).ToString());
  const Tensor* value = c.input_value(i);
  if (value == nullptr) return std::nullopt;
  if (value->shape().rank() > 1)
    return InvalidArgument("input {} must be a vector or a scalar of integers, not of shape {}", i,
                           value->shape().ToString());
  std::vector<int64_t> integers;
  if (value->dtype() == DType::kInt32) {
    for (int32_t v : value->flat<int32_t>()) integers.push_back(v);
  } else if (value->dtype() == DType::kInt64) {
    for (int64_t v : value->flat<int64_t>()) integers.push_back(v);
  } else {
    return InvalidArgument("input {} must be int32 or int64, not {}", i, Name(value->dtype()));
  }
  return integers;
}

StatusOr<std::optional<int64_t>> KnownInteger(const InferenceContext& c, int i) {
  RIVULET_ASSIGN_OR_RETURN(auto integers, KnownIntegers(c, i));
  if (!integers) return std::nullopt;
  if (integers->size() != 1) return InvalidArgument("input {} must be one integer, not {}", i, integers->size());
  return integers->front();
}

StatusOr<Shape> ShapeFromInput(const InferenceContext& c, int i, bool allow_minus_one) {
  const Shape& shape_of_sizes = c.input(i);
  if (shape_of_sizes.known_rank() && shape_of_sizes.rank() != 1 && !(allow_minus_one && shape_of_sizes.rank() == 0))
    return InvalidArgument("input {} must be a vector of sizes, not of shape {}", i, shape_of_sizes.ToString());
  RIVULET_ASSIGN_OR_RETURN(auto sizes, KnownIntegers(c, i));
  if (!sizes) {
    if (auto partial = c.input_as_shape(i)) return *std::move(partial);
    if (!shape_of_sizes.known_rank() || shape_of_sizes.rank() != 1 || shape_of_sizes.dim(0) == kUnknownDim)
      return Shape::UnknownRank();
    if (shape_of_sizes.dim(0) > 254)
      return InvalidArgument("input {} describes a shape of {} dimensions; at most 254 are possible", i,
                             shape_of_sizes.dim(0));
    return Shape(std::vector<int64_t>(static_cast<size_t>(shape_of_sizes.dim(0)), kUnknownDim));
  }
  if (sizes->size() > 254)
    return InvalidArgument("input {} describes a shape of {} dimensions; at most 254 are possible", i, sizes->size());
  for (int64_t size : *sizes)
    if (size < (allow_minus_one ? -1 : 0) || size > kMaxSize)
      return InvalidArgument("input {} holds {}, which is no size of a dimension", i, size);
  Shape shape(*std::move(sizes));
  if (shape.IsFullyKnown()) RIVULET_RETURN_IF_ERROR(shape.CheckedElements().status());
  return shape;
}

bool IsLeftOut(const Shape& shape) { return shape.known_rank() && shape.rank() == 1 && shape.dim(0) == 0; }

StatusOr<int> NormalizeAxis(int64_t axis, int rank, std::string_view what) {
  if (axis < -rank || axis >= rank)
    return InvalidArgument("{} {} is outside [{}, {}), the axes of a tensor of rank {}", what, axis, -rank, rank, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

StatusOr<int64_t> AddDims(int64_t a, int64_t b) {
  if (a == kUnknownDim || b == kUnknownDim) return kUnknownDim;
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum) || sum < 0 || sum > kMaxSize)
    return InvalidArgument("a dimension of {} + {} is outside [0, 2^40]", a, b);
  return sum;
}

StatusOr<int64_t> MultiplyDims(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == kUnknownDim || b == kUnknownDim) return kUnknownDim;
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product < 0 || product > kMaxSize)
    return InvalidArgument("a dimension of {} x {} is outside [0, 2^40]", a, b);
  return product;
}

}  // namespace rivulet
