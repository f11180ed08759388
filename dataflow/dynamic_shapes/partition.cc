// Rows sent to numbered partitions.
#include <cstring>

#include "dataflow/resources/async_op.h"

namespace rivulet {
namespace {

StatusOr<std::vector<Tensor>> PartitionsOf(const AsyncContext& context) {
  const Tensor &data = context.inputs[0], &partitions = context.inputs[1];
  const int64_t count = context.node.attr<int64_t>("num_partitions");
  const int rank = partitions.shape().rank();
  if (data.shape().rank() < rank ||
      !std::equal(partitions.shape().dims().begin(), partitions.shape().dims().end(), data.shape().dims().begin()))
    return InvalidArgument("data {} does not begin with the shape of partitions, {}", data.shape().ToString(),
                           partitions.shape().ToString());
  std::vector<int64_t> row(data.shape().dims().begin() + rank, data.shape().dims().end());
  size_t row_bytes = SizeOf(data.dtype());
  for (const int64_t dim : row) row_bytes *= static_cast<size_t>(dim);
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(count));
  for (int64_t i = 0; i < partitions.elements(); ++i) {
    const int32_t to = partitions.flat<int32_t>()[static_cast<size_t>(i)];
    if (to < 0 || to >= count) return InvalidArgument("partitions[{}] is {}, and there are {}", i, to, count);
    rows[static_cast<size_t>(to)].push_back(i);
  }
  std::vector<Tensor> outputs;
  for (const std::vector<int64_t>& own : rows) {
    std::vector<int64_t> dims = {static_cast<int64_t>(own.size())};
    dims.insert(dims.end(), row.begin(), row.end());
    RIVULET_ASSIGN_OR_RETURN(Tensor part, Tensor::Create(data.dtype(), Shape(std::move(dims))));
    for (size_t i = 0; i < own.size() && row_bytes > 0; ++i)
      std::memcpy(part.data() + i * row_bytes, data.data() + static_cast<size_t>(own[i]) * row_bytes, row_bytes);
    outputs.push_back(std::move(part));
  }
  return outputs;
}
void DynamicPartition(AsyncContext& context, AsyncDone done) { done(PartitionsOf(context)); }
RIVULET_DYNAMIC_OP("DynamicPartition", DynamicPartition);

}  // namespace
}  // namespace rivulet
