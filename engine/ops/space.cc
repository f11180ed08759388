// Pixels moved between space and channels, or between space and the batch.
#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"
#include "engine/ops/window.h"

namespace rivulet {
namespace {

Status BlockShape(InferenceContext& c, bool to_depth) {
  RIVULET_ASSIGN_OR_RETURN(Shape x, c.WithRank(0, 4));
  RIVULET_ASSIGN_OR_RETURN(const ImageLayout layout, ImageLayout::Parse(c.attr<std::string>("data_format")));
  const int64_t block = c.attr<int64_t>("block_size");
  if (block > int64_t{1} << 20) return InvalidArgument("a block_size of {}", block);
  for (int axis : {layout.height, layout.width}) {
    const int64_t size = x.dim(axis);
    if (to_depth && size != kUnknownDim && size % block != 0)
      return InvalidArgument("axis {} of {} is no multiple of block_size = {}", axis, x.ToString(), block);
    int64_t changed = size;
    if (!to_depth) {
      RIVULET_ASSIGN_OR_RETURN(changed, MultiplyDims(size, block));
    } else if (size != kUnknownDim) {
      changed = size / block;
    }
    x.set_dim(axis, changed);
  }
  const int64_t channels = x.dim(layout.channels);
  if (!to_depth && channels != kUnknownDim && channels % (block * block) != 0)
    return InvalidArgument("the {} channels of {} are no multiple of block_size² = {}", channels, c.input(0).ToString(),
                           block * block);
  if (to_depth) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t deep, MultiplyDims(channels, block * block));
    x.set_dim(layout.channels, deep);
  } else if (channels != kUnknownDim) {
    x.set_dim(layout.channels, channels / (block * block));
  }
  c.set_output(0, std::move(x));
  return absl::OkStatus();
}

GradientFn BlockGradient(const char* inverse) {
  return [inverse](GradientContext& g) {
    GradientOps ops(g);
    g.set_input_grad(0, ops.Op(inverse, {g.grad()},
                               {{"block_size", g.node()->attr<int64_t>("block_size")},
                                {"data_format", g.node()->attr<std::string>("data_format")}}));
    return ops.status();
  };
}

// input [batch, spatial…, rest…], block_shape [M], paddings or crops [M, 2].
Status BatchSpaceShape(InferenceContext& c, bool to_batch) {
  const Shape& x = c.input(0);
  RIVULET_ASSIGN_OR_RETURN(const Shape of_block, c.WithRank(1, 1));
  RIVULET_ASSIGN_OR_RETURN(const Shape of_edges, c.WithRank(2, 2));
  if (!Shape::Compatible(of_edges, Shape({of_block.dim(0), 2})))
    return InvalidArgument("{} must have shape [{}, 2], not {}", to_batch ? "paddings" : "crops", of_block.dim(0),
                           of_edges.ToString());
  if (!x.known_rank()) {
    c.set_output(0, Shape::UnknownRank());
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const auto block, KnownIntegers(c, 1));
  const Tensor* edges = c.input_value(2);
  if (of_block.dim(0) != kUnknownDim && x.rank() < 1 + of_block.dim(0))
    return InvalidArgument("{} has no {} axes after the batch", x.ToString(), of_block.dim(0));
  Shape result = x;
  if (!block || edges == nullptr) {
    result = Shape(std::vector<int64_t>(static_cast<size_t>(x.rank()), kUnknownDim));
    c.set_output(0, std::move(result));
    return absl::OkStatus();
  }
  const bool wide = edges->dtype() == DType::kInt64;
  int64_t blocks = 1;
  for (size_t i = 0; i < block->size(); ++i) {
    const int64_t size = (*block)[i];
    if (size < 1) return InvalidArgument("block_shape holds {}, below 1", size);
    RIVULET_ASSIGN_OR_RETURN(blocks, MultiplyDims(blocks, size));
    const int64_t before = wide ? edges->flat<int64_t>()[2 * i] : edges->flat<int32_t>()[2 * i];
    const int64_t after = wide ? edges->flat<int64_t>()[2 * i + 1] : edges->flat<int32_t>()[2 * i + 1];
    if (before < 0 || after < 0)
      return InvalidArgument("{} of axis {}, {} and {}, must not be negative", to_batch ? "paddings" : "crops", i + 1,
                             before, after);
    const int axis = static_cast<int>(i) + 1;
    RIVULET_ASSIGN_OR_RETURN(const int64_t both, AddDims(before, after));
    if (to_batch) {
      RIVULET_ASSIGN_OR_RETURN(const int64_t padded, AddDims(x.dim(axis), both));
      if (padded != kUnknownDim && padded % size != 0)
        return InvalidArgument("axis {} of {}, padded to {}, is no multiple of the block's {}", axis, x.ToString(),
                               padded, size);
      result.set_dim(axis, padded == kUnknownDim ? kUnknownDim : padded / size);
    } else {
      RIVULET_ASSIGN_OR_RETURN(const int64_t whole, MultiplyDims(x.dim(axis), size));
      if (whole != kUnknownDim && both > whole)
        return InvalidArgument("crops of {} are more than the {} of axis {}", both, whole, axis);
      result.set_dim(axis, whole == kUnknownDim ? kUnknownDim : whole - both);
    }
  }
  if (to_batch) {
    RIVULET_ASSIGN_OR_RETURN(const int64_t batch, MultiplyDims(x.dim(0), blocks));
    result.set_dim(0, batch);
  } else if (x.dim(0) != kUnknownDim) {
    if (x.dim(0) % blocks != 0)
      return InvalidArgument("the batch of {} is no multiple of the block's {} elements", x.dim(0), blocks);
    result.set_dim(0, x.dim(0) / blocks);
  }
  c.set_output(0, std::move(result));
  return absl::OkStatus();
}

GradientFn BatchSpaceGradient(const char* inverse) {
  return [inverse](GradientContext& g) {
    GradientOps ops(g);
    g.set_input_grad(0, ops.Op(inverse, {g.grad(), g.input(1), g.input(2)}));
    return ops.status();
  };
}

RIVULET_OP("SpaceToDepth")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("block_size: int >= 2")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Shape([](InferenceContext& c) { return BlockShape(c, /*to_depth=*/true); })
    .Gradient(BlockGradient("DepthToSpace"))
    .Doc("Blocks of block_size × block_size pixels become pixels with as many times the channels.");

RIVULET_OP("DepthToSpace")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("block_size: int >= 2")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Shape([](InferenceContext& c) { return BlockShape(c, /*to_depth=*/false); })
    .Gradient(BlockGradient("SpaceToDepth"))
    .Doc("The inverse of SpaceToDepth.");

RIVULET_OP("SpaceToBatchND")
    .Input("input: T")
    .Input("block_shape: Tblock_shape")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tblock_shape: {int32, int64} = DT_INT32")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Shape([](InferenceContext& c) { return BatchSpaceShape(c, /*to_batch=*/true); })
    .Gradient(BatchSpaceGradient("BatchToSpaceND"))
    .Doc(
        "The spatial axes, padded with zeros, in blocks. Each position in a block becomes a separate batch. Block and "
        "paddings must be known when a program is compiled.");

RIVULET_OP("BatchToSpaceND")
    .Input("input: T")
    .Input("block_shape: Tblock_shape")
    .Input("crops: Tcrops")
    .Output("output: T")
    .Attr("T: " RIVULET_ANY_TYPE)
    .Attr("Tblock_shape: {int32, int64} = DT_INT32")
    .Attr("Tcrops: {int32, int64} = DT_INT32")
    .Shape([](InferenceContext& c) { return BatchSpaceShape(c, /*to_batch=*/false); })
    .Gradient(BatchSpaceGradient("SpaceToBatchND"))
    .Doc("The inverse of SpaceToBatchND, with crops in the place of paddings.");

}  // namespace
}  // namespace rivulet
