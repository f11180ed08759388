// Distribution of rows to numbered partitions, and stitching of rows by their numbers.
#include <algorithm>
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

// The shape that all indices and data share, and the number of rows for the largest index.
struct Stitched {
  Shape row;
  int64_t rows = 0;
};

StatusOr<Stitched> Measure(const std::vector<Tensor>& inputs) {
  constexpr int32_t kMostRows = 1 << 24;  // so many rows may be allocated, even if no index names them
  const size_t count = inputs.size() / 2;
  Stitched all;
  for (size_t part = 0; part < count; ++part) {
    const auto places = inputs[part].shape().dims(), dims = inputs[count + part].shape().dims();
    if (dims.size() < places.size() || !std::equal(places.begin(), places.end(), dims.begin()))
      return InvalidArgument("data {} of shape {} must begin with the shape of its indices, {}", part,
                             inputs[count + part].shape().ToString(), inputs[part].shape().ToString());
    const Shape row(std::vector<int64_t>(dims.begin() + static_cast<std::ptrdiff_t>(places.size()), dims.end()));
    if (part > 0 && row != all.row)
      return InvalidArgument("data {} of shape {} has other elements than those before it", part,
                             inputs[count + part].shape().ToString());
    all.row = row;
    for (const int32_t index : inputs[part].flat<int32_t>()) {
      if (index < 0 || index >= kMostRows)
        return InvalidArgument("indices {} hold {}, which is not in [0, {})", part, index, kMostRows);
      all.rows = std::max(all.rows, int64_t{index} + 1);
    }
  }
  return all;
}

StatusOr<std::vector<Tensor>> StitchOf(const AsyncContext& context) {
  const std::vector<Tensor>& inputs = context.inputs;
  const size_t count = inputs.size() / 2;
  RIVULET_ASSIGN_OR_RETURN(const Stitched all, Measure(inputs));
  std::vector<int64_t> dims = {all.rows};
  dims.insert(dims.end(), all.row.dims().begin(), all.row.dims().end());
  RIVULET_ASSIGN_OR_RETURN(Tensor merged, Tensor::Create(inputs[count].dtype(), Shape(std::move(dims))));
  size_t row_bytes = SizeOf(merged.dtype());
  for (const int64_t dim : all.row.dims()) row_bytes *= static_cast<size_t>(dim);
  if (row_bytes > 0 && all.rows > 0) std::memset(merged.data(), 0, static_cast<size_t>(all.rows) * row_bytes);
  for (size_t part = 0; part < count && row_bytes > 0; ++part) {
    const std::byte* from = inputs[count + part].data();
    for (const int32_t index : inputs[part].flat<int32_t>()) {
      std::memcpy(merged.data() + static_cast<size_t>(index) * row_bytes, from, row_bytes);
      from += row_bytes;
    }
  }
  std::vector<Tensor> outputs;
  outputs.push_back(std::move(merged));
  return outputs;
}
void DynamicStitch(AsyncContext& context, AsyncDone done) { done(StitchOf(context)); }
RIVULET_DYNAMIC_OP("DynamicStitch", DynamicStitch);

}  // namespace
}  // namespace rivulet
