#include "engine/layers/layers.h"

#include <algorithm>
#include <limits>

#include "engine/base/join.h"
#include "engine/layers/convolution.h"
#include "engine/layers/dropout.h"
#include "engine/variables/variables.h"

namespace rivulet {
namespace {

Output IntVector(const Scope& scope, const std::vector<int64_t>& values, std::string_view name) {
  Tensor tensor(DType::kInt32, Shape{static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.flat<int32_t>()[i] = static_cast<int32_t>(values[i]);
  return scope.Const(std::move(tensor), name);
}

// As the op wants them: 1 for the batch and for channels.
std::vector<int64_t> Window(const std::vector<int64_t>& sizes) { return {1, sizes[0], sizes[1], 1}; }

int64_t Last(const Shape& shape) { return shape.dim(shape.rank() - 1); }

bool AllPositive(const std::vector<int64_t>& values, size_t count) {
  return values.size() == count && std::all_of(values.begin(), values.end(), [](int64_t v) { return v >= 1; });
}

}  // namespace

bool Layers::Check(std::string_view name, Output x, int rank, std::string_view kind) const {
  if (!x || !scope_.status().ok()) return false;
  const Shape& shape = x.shape();
  bool known = shape.known_rank() && shape.rank() >= 2 && (rank == 0 || shape.rank() == rank);
  for (int axis = 1; known && axis < shape.rank(); ++axis) known = shape.dim(axis) > 0;
  if (known) {
    const Shape example(std::vector<int64_t>(shape.dims().begin() + 1, shape.dims().end()));
    const StatusOr<int64_t> elements = example.CheckedElements();
    if (elements.ok() && *elements <= std::numeric_limits<int32_t>::max()) return true;
    scope_.Fail(InvalidArgument("layer '{}' ({}) has an input of {}, more than 2^31 - 1 values an example", name, kind,
                                shape.ToString()));
    return false;
  }
  const std::string wanted = rank == 0 ? "two dimensions or more" : fmt::format("{} dimensions", rank);
  scope_.Fail(InvalidArgument("layer '{}' ({}) needs an input of {}, all but the first known and positive, not {}",
                              name, kind, wanted, shape.ToString()));
  return false;
}

bool Layers::CheckWindow(std::string_view name, const ConvolutionOptions& options, size_t axes, int64_t in,
                         int64_t filters) const {
  for (const auto& [what, values] :
       {std::pair("size", &options.size), {"stride", &options.strides}, {"dilation", &options.dilations}}) {
    if (AllPositive(*values, axes)) continue;
    scope_.Fail(
        InvalidArgument("{} must be one integer or {}, each at least 1, not [{}]", what, axes, Join(*values, ", ")));
    return false;
  }
  if (options.groups >= 1 && in % options.groups == 0 && filters % options.groups == 0) return true;
  scope_.Fail(InvalidArgument("layer '{}' cannot divide {} channels and {} filters into {} groups", name, in, filters,
                              options.groups));
  return false;
}

Output Layers::Weight(const Scope& layer, std::string_view name, std::string_view variable, const Shape& shape,
                      const Initializer& initializer, std::string_view segment) {
  if (!scope_.status().ok()) return {};
  const std::string key = fmt::format("{}/{}", name, variable);
  const auto known = shared_.reads.find(key);
  if (known != shared_.reads.end()) {
    if (known->second.shape() == shape) return known->second;
    scope_.Fail(AlreadyExists("two layers are called '{}'", name));
    return {};
  }
  VariableOptions options;
  options.segment = segment;
  const Output read = Variable(layer, variable, shape, initializer, options);
  if (read) shared_.reads.emplace(key, read);
  return read;
}

Output Layers::Biased(const Scope& layer, std::string_view name, Output x, int64_t width, bool bias,
                      const Initializer& initializer, std::string_view activation) {
  if (bias) x = layer.Op("BiasAdd", {x, Weight(layer, name, "bias", Shape{width}, initializer)});
  return Activate(layer, x, activation);
}

Output Layers::Dense(std::string_view name, Output x, int64_t units, const DenseOptions& options) {
  if (!Check(name, x, 0, "dense")) return {};
  shared_.dense_input = x;
  const Scope layer = scope_.SubScope(name);
  const Shape shape = x.shape();
  const int64_t in = Last(shape);
  const Output kernel = Weight(layer, name, "kernel", Shape{in, units}, options.kernel);
  const bool flat = shape.rank() == 2;
  if (!flat) x = layer.Op("Reshape", {x, IntVector(layer, {-1, in}, "rows")});
  x = layer.Op("MatMul", {x, kernel});
  x = Biased(layer, name, x, units, options.bias, options.bias_initializer, options.activation);
  if (flat) return x;
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[0] = -1;
  dims.back() = units;
  return layer.Op("Reshape", {x, IntVector(layer, dims, "shape")});
}

Output Layers::Conv2D(std::string_view name, Output x, int64_t filters, const ConvolutionOptions& options) {
  if (!Check(name, x, 4, "conv2d")) return {};
  const Scope layer = scope_.SubScope(name);
  const int64_t in = Last(x.shape());
  if (!CheckWindow(name, options, 2, in, filters)) return {};
  const Output kernel = Weight(layer, name, "kernel",
                               Shape{options.size[0], options.size[1], in / options.groups, filters}, options.kernel);
  const Output convolved = layer.Op(
      "Conv2D", {x, kernel},
      {{"strides", Window(options.strides)}, {"dilations", Window(options.dilations)}, {"padding", options.padding}});
  return Biased(layer, name, convolved, filters, options.bias, options.bias_initializer, options.activation);
}

Output Layers::DepthwiseConv2D(std::string_view name, Output x, int64_t multiplier, const ConvolutionOptions& options) {
  if (!Check(name, x, 4, "depthwise_conv2d")) return {};
  const Scope layer = scope_.SubScope(name);
  const int64_t in = Last(x.shape());
  if (!CheckWindow(name, options, 2, in, in)) return {};
  const Output kernel =
      Weight(layer, name, "kernel", Shape{options.size[0], options.size[1], in, multiplier}, options.kernel);
  const Output convolved = layer.Op(
      "DepthwiseConv2dNative", {x, kernel},
      {{"strides", Window(options.strides)}, {"dilations", Window(options.dilations)}, {"padding", options.padding}});
  return Biased(layer, name, convolved, in * multiplier, options.bias, options.bias_initializer, options.activation);
}

Output Layers::Conv2DTranspose(std::string_view name, Output x, int64_t filters, const ConvolutionOptions& options) {
  if (!Check(name, x, 4, "conv2d_transpose")) return {};
  const Scope layer = scope_.SubScope(name);
  if (!CheckWindow(name, options, 2, Last(x.shape()), filters)) return {};
  const Output kernel =
      Weight(layer, name, "kernel", Shape{options.size[0], options.size[1], filters, Last(x.shape())}, options.kernel);
  if (!kernel) return {};
  TransposeOptions transpose;
  transpose.window.strides = options.strides;
  transpose.window.padding = options.padding;
  const Output up = rivulet::Conv2DTranspose(layer, x, kernel, transpose);
  return Biased(layer, name, up, filters, options.bias, options.bias_initializer, options.activation);
}

Output Layers::Conv1D(std::string_view name, Output x, int64_t filters, const ConvolutionOptions& options) {
  if (!Check(name, x, 3, "conv1d")) return {};
  const Scope layer = scope_.SubScope(name);
  const int64_t in = Last(x.shape());
  if (!CheckWindow(name, options, 1, in, filters)) return {};
  const Output kernel =
      Weight(layer, name, "kernel", Shape{options.size[0], in / options.groups, filters}, options.kernel);
  if (!kernel) return {};
  const Output convolved = rivulet::Conv1D(
      layer, x, kernel, {.strides = options.strides, .dilations = options.dilations, .padding = options.padding});
  return Biased(layer, name, convolved, filters, options.bias, options.bias_initializer, options.activation);
}

Output Layers::Pool(std::string_view op, std::string_view name, Output x, const PoolOptions& options) {
  const bool one_dimensional = x && x.shape().known_rank() && x.shape().rank() == 3;
  if (!Check(name, x, one_dimensional ? 3 : 4, "pool")) return {};
  std::vector<int64_t> size = options.size, strides = options.strides.empty() ? options.size : options.strides;
  const size_t axes = one_dimensional ? 1 : 2;
  if (!AllPositive(size, axes) || !AllPositive(strides, axes)) {
    scope_.Fail(InvalidArgument("layer '{}' needs {} positive sizes and strides for an input of {}", name, axes,
                                x.shape().ToString()));
    return {};
  }
  if (!one_dimensional)
    return scope_.Op(op, {x}, {{"ksize", Window(size)}, {"strides", Window(strides)}, {"padding", options.padding}},
                     name);
  const Scope layer = scope_.SubScope(name);
  x = layer.Op("ExpandDims", {x, layer.Const(Tensor::Scalar<int32_t>(1))});
  x = layer.Op(op, {x},
               {{"ksize", Window({1, size[0]})}, {"strides", Window({1, strides[0]})}, {"padding", options.padding}});
  return layer.Op("Squeeze", {x}, {{"squeeze_dims", std::vector<int64_t>{1}}});
}

Output Layers::MaxPool(std::string_view name, Output x, const PoolOptions& options) {
  return Pool("MaxPool", name, x, options);
}
Output Layers::AvgPool(std::string_view name, Output x, const PoolOptions& options) {
  return Pool("AvgPool", name, x, options);
}

Output Layers::ReduceSpace(std::string_view op, std::string_view name, Output x) {
  if (!Check(name, x, 0, "global pool")) return {};
  const Scope layer = scope_.SubScope(name);
  std::vector<int64_t> axes;
  for (int axis = 1; axis + 1 < x.shape().rank(); ++axis) axes.push_back(axis);
  return layer.Op(op, {x, IntVector(layer, axes, "axes")});
}
Output Layers::GlobalMaxPool(std::string_view name, Output x) { return ReduceSpace("Max", name, x); }
Output Layers::GlobalAvgPool(std::string_view name, Output x) { return ReduceSpace("Mean", name, x); }

Output Layers::Flatten(std::string_view name, Output x) {
  if (!Check(name, x, 0, "flatten")) return {};
  const Scope layer = scope_.SubScope(name);
  int64_t features = 1;
  for (int axis = 1; axis < x.shape().rank(); ++axis) features *= x.shape().dim(axis);
  return layer.Op("Reshape", {x, IntVector(layer, {-1, features}, "shape")});
}

Output Layers::Reshape(std::string_view name, Output x, const std::vector<int64_t>& dims) {
  if (!Check(name, x, 0, "reshape")) return {};
  int64_t before = 1, after = 1;
  for (int axis = 1; axis < x.shape().rank(); ++axis) before *= x.shape().dim(axis);
  const bool positive = AllPositive(dims, dims.size());
  for (const int64_t dim : dims) after = positive && after <= before ? after * dim : -1;
  if (before != after) {
    scope_.Fail(InvalidArgument("layer '{}' cannot make [{}] of examples of {} values", name, Join(dims, ","), before));
    return {};
  }
  const Scope layer = scope_.SubScope(name);
  std::vector<int64_t> shape = {-1};
  shape.insert(shape.end(), dims.begin(), dims.end());
  return layer.Op("Reshape", {x, IntVector(layer, shape, "shape")});
}

Output Layers::ZeroPad2D(std::string_view name, Output x, const std::vector<int64_t>& amounts) {
  if (!Check(name, x, 4, "zero_pad")) return {};
  if (amounts.size() != 2) {
    scope_.Fail(InvalidArgument("amount must be one integer or 2, not [{}]", Join(amounts, ", ")));
    return {};
  }
  const Scope layer = scope_.SubScope(name);
  const auto rows = static_cast<int32_t>(amounts[0]), columns = static_cast<int32_t>(amounts[1]);
  const Output paddings =
      layer.Const(Tensor::Of<int32_t>(Shape{4, 2}, {0, 0, rows, rows, columns, columns, 0, 0}), "paddings");
  return layer.Op("Pad", {x, paddings});
}

Output Layers::Dropout(std::string_view name, Output x, double rate) {
  if (rate != 0) shared_.differs = true;
  if (training_) return rivulet::Dropout(scope_.SubScope(name), x, static_cast<float>(rate));
  if (!(rate >= 0 && rate < 1))
    scope_.Fail(InvalidArgument("layer '{}' drops a share of {}; it must be at least 0 and below 1", name, rate));
  return x;
}

Output Layers::Activation(std::string_view name, Output x, std::string_view activation) {
  return Activate(scope_.SubScope(name), x, activation);
}

Output Layers::Add(std::string_view name, Output x, Output y, std::string_view activation) {
  if (!Check(name, x, 0, "add") || !Check(name, y, 0, "add")) return {};
  if (!Shape::Compatible(x.shape(), y.shape())) {
    scope_.Fail(InvalidArgument("layer '{}' cannot add {} and {}", name, x.shape().ToString(), y.shape().ToString()));
    return {};
  }
  const Scope layer = scope_.SubScope(name);
  return Activate(layer, layer.Op("AddV2", {x, y}), activation);
}

Output Layers::Concat(std::string_view name, Output x, Output y) {
  if (!Check(name, x, 0, "concat") || !Check(name, y, 0, "concat")) return {};
  const Scope layer = scope_.SubScope(name);
  const Output axis = layer.Const(Tensor::Scalar<int32_t>(x.shape().rank() - 1), "axis");
  return layer.Op("ConcatV2", {x, y, axis});
}

Output Layers::Embedding(std::string_view name, Output x, int64_t vocabulary, int64_t units,
                         const Initializer& initializer) {
  if (!x || !scope_.status().ok()) return {};
  if (IsFloating(x.dtype())) {
    scope_.Fail(InvalidArgument("layer '{}' (embedding) looks up integers, but its input is {}", name,
                                rivulet::Name(x.dtype())));
    return {};
  }
  const Scope layer = scope_.SubScope(name);
  const Output table = Weight(layer, name, "embeddings", Shape{vocabulary, units}, initializer);
  return layer.Op("GatherV2", {table, x, layer.Const(Tensor::Scalar<int32_t>(0), "axis")});
}

}  // namespace rivulet
