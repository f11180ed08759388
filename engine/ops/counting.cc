// Counts, ranks and places of values: histograms, buckets and searches.
#include <algorithm>

#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

#define RIVULET_COUNTED "{float, double, int32, int64}"

Status BincountShape(InferenceContext& c) {
  const Shape& input = c.input(0);
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1}));
  RIVULET_ASSIGN_OR_RETURN(const auto size, KnownInteger(c, 1));
  if (size && *size < 0) return InvalidArgument("size is {}, below 0", *size);
  if (!input.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (input.rank() > 2) return InvalidArgument("input {} has more than two axes", input.ToString());
  std::vector<int64_t> dims;
  if (input.rank() == 2) dims.push_back(input.dim(0));
  dims.push_back(size.value_or(kUnknownDim));
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

Status HistogramShape(InferenceContext& c) {
  if (!Shape::Compatible(c.input(1), Shape({2})))
    return InvalidArgument("value_range must be two numbers, not of shape {}", c.input(1).ToString());
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {2}));
  RIVULET_ASSIGN_OR_RETURN(const auto bins, KnownInteger(c, 2));
  if (bins && *bins < 1) return InvalidArgument("nbins is {}, below 1", *bins);
  c.set_output(0, Shape({bins.value_or(kUnknownDim)}));
  return absl::OkStatus();
}

Status BucketizeShape(InferenceContext& c) {
  const auto& boundaries = c.attr<std::vector<float>>("boundaries");
  if (!std::is_sorted(boundaries.begin(), boundaries.end())) return InvalidArgument("the boundaries do not ascend");
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

Status BoundShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape sorted, c.WithRank(0, 2));
  RIVULET_ASSIGN_OR_RETURN(const Shape values, c.WithRank(1, 2));
  if (!Shape::Compatible(Shape({sorted.dim(0)}), Shape({values.dim(0)})))
    return InvalidArgument("sorted_inputs {} and values {} differ in the number of rows", sorted.ToString(),
                           values.ToString());
  c.set_output(0, values);
  return absl::OkStatus();
}

Status InTopKShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const Shape predictions, c.WithRank(0, 2));
  RIVULET_ASSIGN_OR_RETURN(const Shape targets, c.WithRank(1, 1));
  RIVULET_ASSIGN_OR_RETURN(Shape rows, Shape::Merge(Shape({predictions.dim(0)}), targets));
  c.set_output(0, std::move(rows));
  return absl::OkStatus();
}

Status NthShape(InferenceContext& c) {
  const Shape& input = c.input(0);
  RIVULET_RETURN_IF_ERROR(CheckScalars(c, {1}));
  if (!input.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  if (input.rank() == 0) return InvalidArgument("a scalar has no elements to choose from");
  c.set_output(0, Shape(std::vector<int64_t>(input.dims().begin(), input.dims().end() - 1)));
  return absl::OkStatus();
}

RIVULET_OP("DenseBincount")
    .Input("input: Tidx")
    .Input("size: Tidx")
    .Input("weights: T")
    .Output("output: T")
    .Attr("Tidx: {int32, int64}")
    .Attr("T: " RIVULET_COUNTED)
    .Attr("binary_output: bool = false")
    .Shape(BincountShape)
    .NotDifferentiable("its output is a count")
    .Doc(
        "How often each of 0 … size - 1 is in a vector, or in each row of a matrix: the sum of the weights, which are "
        "1 where there are none. With binary_output, whether it is there. size must be known when a program is "
        "compiled.");

RIVULET_OP("Bincount")
    .Input("arr: int32")
    .Input("size: int32")
    .Input("weights: T")
    .Output("bins: T")
    .Attr("T: " RIVULET_COUNTED)
    .Shape(BincountShape)
    .NotDifferentiable("its output is a count")
    .Doc("As DenseBincount of a vector.");

RIVULET_OP("HistogramFixedWidth")
    .Input("values: T")
    .Input("value_range: T")
    .Input("nbins: int32")
    .Output("out: dtype")
    .Attr("T: " RIVULET_COUNTED)
    .Attr("dtype: {int32, int64} = DT_INT32")
    .Shape(HistogramShape)
    .NotDifferentiable("its output is a count")
    .Doc(
        "The number of values in each of nbins equal parts of value_range. Values beyond it count in the first or the "
        "last part. The input nbins must be known when a program is compiled.");

RIVULET_OP("Bucketize")
    .Input("input: T")
    .Output("output: int32")
    .Attr("T: " RIVULET_COUNTED)
    .Attr("boundaries: list(float)")
    .Shape(BucketizeShape)
    .NotDifferentiable("its output is a bucket")
    .Doc("How many boundaries, which ascend, are not above each element.");

#define RIVULET_BOUND_OP(name)                                  \
  RIVULET_OP(name)                                              \
      .Input("sorted_inputs: T")                                \
      .Input("values: T")                                       \
      .Output("output: out_type")                               \
      .Attr("T: {half, bfloat16, float, double, int32, int64}") \
      .Attr("out_type: {int32, int64} = DT_INT32")              \
      .Shape(BoundShape)                                        \
      .NotDifferentiable("its output is an index")
RIVULET_BOUND_OP("LowerBound").Doc("In each row, the index of the first sorted input that is not below the value.");
RIVULET_BOUND_OP("UpperBound").Doc("In each row, the index of the first sorted input that is above the value.");

RIVULET_OP("InTopKV2")
    .Input("predictions: float")
    .Input("targets: T")
    .Input("k: T")
    .Output("precision: bool")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(InTopKShape)
    .NotDifferentiable("its output is bool")
    .Doc("Whether fewer than k predictions of a row are above that of its target.");

RIVULET_OP("NthElement")
    .Input("input: T")
    .Input("n: int32")
    .Output("values: T")
    .Attr("reverse: bool = false")
    .Attr("T: " RIVULET_COUNTED)
    .Shape(NthShape)
    .NotDifferentiable("its gradient is not offered")
    .Doc("The element of each row that would be at n if the row were sorted; reverse sorts descending.");

}  // namespace
}  // namespace rivulet
