// Reduction of rows by segment; the last id gives the number of segments. The op's own kernel does the rest.
#include <algorithm>
#include <cstring>

#include "dataflow/dynamic_shapes/run_kernel.h"
#include "dataflow/resources/async_op.h"

namespace rivulet {
namespace {

StatusOr<int64_t> LastId(const Tensor& ids) {
  if (ids.elements() == 0) return -1;
  const size_t last = static_cast<size_t>(ids.elements()) - 1;
  const int64_t id = ids.dtype() == DType::kInt64 ? ids.flat<int64_t>()[last] : int64_t{ids.flat<int32_t>()[last]};
  // So many rows may be allocated, even for empty segments.
  constexpr int64_t kMostSegments = int64_t{1} << 24;
  if (id < 0 || id >= kMostSegments) return InvalidArgument("the last of segment_ids is {}", id);
  return id;
}

StatusOr<std::vector<Tensor>> SegmentsOf(const AsyncContext& context) {
  const std::vector<Tensor>& inputs = context.inputs;
  RIVULET_ASSIGN_OR_RETURN(const int64_t last, LastId(inputs.back()));
  Shape shape = inputs[0].shape();
  if (shape.rank() < 1) return InvalidArgument("a scalar has no rows");
  shape.set_dim(0, last + 1);
  std::vector<Tensor> outputs;
  RIVULET_ASSIGN_OR_RETURN(outputs.emplace_back(), Tensor::Create(inputs[0].dtype(), shape));
  RIVULET_RETURN_IF_ERROR(RunKernelOf(context, context.node, outputs));
  return outputs;
}
void Segments(AsyncContext& context, AsyncDone done) { done(SegmentsOf(context)); }

RIVULET_DYNAMIC_OP("SegmentSum", Segments);
RIVULET_DYNAMIC_OP("SegmentMean", Segments);
RIVULET_DYNAMIC_OP("SegmentMax", Segments);
RIVULET_DYNAMIC_OP("SegmentMin", Segments);
RIVULET_DYNAMIC_OP("SegmentProd", Segments);
RIVULET_DYNAMIC_OP("SparseSegmentSum", Segments);
RIVULET_DYNAMIC_OP("SparseSegmentMean", Segments);
RIVULET_DYNAMIC_OP("SparseSegmentSqrtN", Segments);

}  // namespace
}  // namespace rivulet
