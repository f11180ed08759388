// Kernels here are [height, width, in, out] and [in, out]; in PyTorch they are [out, in, height, width] and [out, in].
// A square kernel has the same shape either way and would load untransposed without an error. So the axes follow from
// the op that reads a variable, and a variable without such an op is refused by name.
#include "cli/model/pytorch_names.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/graph/variable_name.h"

namespace rivulet {
namespace {

using Axes = std::vector<int64_t>;

Axes InOrder(const Shape& shape) {
  Axes axes(static_cast<size_t>(shape.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Shape Transposed(const Shape& shape, const Axes& axes) {
  std::vector<int64_t> dims;
  for (const int64_t axis : axes) dims.push_back(shape.dim(static_cast<int>(axis)));
  return Shape(std::move(dims));
}

PyTorchLayout By(const Shape& shape, Axes axes) {
  Shape to = Transposed(shape, axes);
  return {shape, std::move(axes), std::move(to)};
}

// The first node that does more than pass on a variable's value, and the index of its input; null: there is none.
std::pair<const Node*, int> ReaderOf(const Graph& graph, Node* handle) {
  Node* from = handle;
  while (true) {
    const std::vector<Node*> consumers = graph.Consumers(from->output());
    Node* next = nullptr;
    for (Node* consumer : consumers) {
      const std::string_view type = consumer->type();
      if (type == "ReadVariableOp" || type == "Identity") {
        next = consumer;
        continue;
      }
      if (type.starts_with("Assign") || type == "VarIsInitializedOp") continue;
      for (size_t i = 0; i < consumer->inputs().size(); ++i) {
        if (consumer->inputs()[i] == from->output()) return {consumer, static_cast<int>(i)};
      }
    }
    if (next == nullptr) return {nullptr, 0};
    from = next;
  }
}

// Height, width and channels of the images that a product reads flattened; empty: its input is no image.
std::vector<int64_t> FlattenedImages(const Node& product) {
  Output x = product.input(0);
  // Back over ops that keep every value in its place.
  while (x.node->type() != "Reshape" && !x.node->inputs().empty() &&
         Shape::Compatible(x.node->input(0).shape(), x.shape())) {
    x = x.node->input(0);
  }
  if (x.node->type() != "Reshape") return {};
  const Shape& images = x.node->input(0).shape();
  if (!images.known_rank() || images.rank() != 4) return {};
  std::vector<int64_t> sizes = {images.dim(1), images.dim(2), images.dim(3)};
  return std::ranges::all_of(sizes, [](int64_t size) { return size > 0; }) ? sizes : std::vector<int64_t>{};
}

}  // namespace

StatusOr<PyTorchLayout> PyTorchLayoutOf(const Graph& graph, Node* handle, const Tensor& value) {
  const std::string_view name = VariableName(*handle);
  const Shape& shape = value.shape();
  if (const auto* axes = handle->FindAttr<Axes>("_onnx_perm"); axes != nullptr) return By(shape, *axes);
  if (shape.rank() < 2) return By(shape, InOrder(shape));
  // PyTorch's own parameter names have dots. An ONNX file that keeps them has the module's values unchanged, unless
  // _onnx_perm says otherwise: the matrix of GPT-2's Conv1D is [in, out] in PyTorch too.
  if (name.find('.') != std::string_view::npos && name.find('/') == std::string_view::npos)
    return By(shape, InOrder(shape));
  const auto [reader, input] = ReaderOf(graph, handle);
  const std::string_view type = reader == nullptr ? "" : reader->type();
  if (type == "Conv2D" && input == 1) return By(shape, {3, 2, 0, 1});
  if (type == "DepthwiseConv2dNative" && input == 1) {
    PyTorchLayout layout = By(shape, {2, 3, 0, 1});
    layout.to = Shape{shape.dim(2) * shape.dim(3), 1, shape.dim(0), shape.dim(1)};
    return layout;
  }
  if (type == "MatMul" && input == 1 && shape.rank() == 2) {
    if (reader->attr<bool>("transpose_b")) return By(shape, {0, 1});
    const std::vector<int64_t> image = FlattenedImages(*reader);
    if (image.empty()) return By(shape, {1, 0});
    // PyTorch flattens channels first.
    return PyTorchLayout{
        Shape{image[0], image[1], image[2], shape.dim(1)}, {3, 2, 0, 1}, Shape{shape.dim(1), shape.dim(0)}};
  }
  if (type.starts_with("BatchMatMul") && input == 1 && shape.rank() == 2) {
    return By(shape, reader->attr<bool>("adj_y") ? Axes{0, 1} : Axes{1, 0});
  }
  if (type.starts_with("Gather") && input == 0) return By(shape, InOrder(shape));
  return absl::UnimplementedError(fmt::format(
      "variable '{}' {} is read by {}, and PyTorch keeps such weights in another way; export the model as ONNX",
      std::string(name), shape.ToString(), reader == nullptr ? "nothing" : std::string(type)));
}

Tensor Rearranged(const Tensor& tensor, const PyTorchLayout& layout) {
  Tensor result(tensor.dtype(), layout.to);
  const size_t size = SizeOf(tensor.dtype());
  const auto rank = layout.axes.size();
  std::vector<size_t> strides(rank), sizes(rank), at(rank);
  for (size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<int>(layout.axes[i]);
    sizes[i] = static_cast<size_t>(layout.from.dim(axis));
    strides[i] = size;
    for (int after = axis + 1; after < layout.from.rank(); ++after)
      strides[i] *= static_cast<size_t>(layout.from.dim(after));
  }
  std::byte* to = result.data();
  for (int64_t element = 0; element < tensor.elements(); ++element, to += size) {
    size_t offset = 0;
    for (size_t i = 0; i < rank; ++i) offset += at[i] * strides[i];
    std::memcpy(to, tensor.data() + offset, size);
    for (size_t i = rank; i-- > 0 && ++at[i] == sizes[i];) at[i] = 0;
  }
  return result;
}

std::string PyTorchName(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kRoles = {
      {{"kernel", "weight"},
       {"embeddings", "weight"},
       {"gamma", "weight"},
       {"bias", "bias"},
       {"beta", "bias"},
       {"moving_mean", "running_mean"},
       {"moving_variance", "running_var"}}};
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return std::string(name);
  std::string layer(name.substr(0, slash));
  std::ranges::replace(layer, '/', '.');
  const std::string_view role = name.substr(slash + 1);
  const auto* const found = std::ranges::find(kRoles, role, &std::pair<std::string_view, std::string_view>::first);
  return fmt::format("{}.{}", layer, found == kRoles.end() ? role : found->second);
}

}  // namespace rivulet
