#include "engine/input/element.h"

#include <algorithm>
#include <cstring>

namespace rivulet {

Component Component::Strings(Shape shape, std::vector<Bytes> strings) {
  RIVULET_CHECK(shape.elements() == static_cast<int64_t>(strings.size()));
  Component component;
  component.strings_ = std::make_shared<const std::vector<Bytes>>(std::move(strings));
  component.strings_shape_ = std::move(shape);
  return component;
}

const Tensor& Component::tensor() const {
  RIVULET_CHECK(strings_ == nullptr && !tensor_.empty(), "strings are no tensor");
  return tensor_;
}

std::span<const Bytes> Component::strings() const {
  RIVULET_CHECK(strings_ != nullptr, "a tensor has no strings");
  return *strings_;
}

size_t Component::bytes() const {
  if (strings_ == nullptr) return tensor_.empty() ? 0 : tensor_.bytes();
  size_t total = 0;
  for (const Bytes& each : *strings_) total += sizeof(Bytes) + each.value.size();
  return total;
}

StatusOr<std::span<const Component>> Element::Components() {
  if (source_ != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(components_, source_->Read(index_));
    source_ = nullptr;
  }
  return std::span<const Component>(components_);
}

size_t Element::bytes() const {
  size_t total = sizeof(Element);
  for (const Component& component : components_) total += sizeof(Component) + component.bytes();
  return total;
}

std::string Describe(std::span<const TensorSpec> specs) {
  std::string text;
  for (const TensorSpec& spec : specs)
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", Name(spec.dtype), spec.shape.ToString());
  return "(" + text + ")";
}

Status CheckComponents(std::span<const Component> components, std::span<const TensorSpec> specs, std::string_view where,
                       std::string_view what) {
  std::vector<TensorSpec> found;
  bool fits = components.size() == specs.size();
  for (size_t i = 0; i < components.size(); ++i) {
    found.push_back(components[i].spec());
    fits = fits && found[i].dtype == specs[i].dtype && Shape::Compatible(found[i].shape, specs[i].shape);
  }
  if (fits) return absl::OkStatus();
  return InvalidArgument("{}: {} {}, but output_types and output_shapes say {}", where, what, Describe(found),
                         Describe(specs));
}

namespace {

Shape Stacked(size_t count, const Shape& element) {
  std::vector<int64_t> dims = {static_cast<int64_t>(count)};
  dims.insert(dims.end(), element.dims().begin(), element.dims().end());
  return Shape(std::move(dims));
}

}  // namespace

StatusOr<Component> Stack(std::span<const std::span<const Component>> elements, size_t i) {
  const Component& first = elements[0][i];
  for (size_t k = 1; k < elements.size(); ++k) {
    const Component& other = elements[k][i];
    if (other.dtype() != first.dtype())
      return InvalidArgument("Cannot batch tensors of different types in component {}: {} and {}.", i,
                             Name(first.dtype()), Name(other.dtype()));
    if (other.shape() != first.shape())
      return InvalidArgument(
          "Cannot batch tensors with different shapes in component {}. First element had shape {} and element {} had "
          "shape {}.",
          i, first.shape().ToString(), k, other.shape().ToString());
  }
  const Shape shape = Stacked(elements.size(), first.shape());
  if (first.dtype() == DType::kString) {
    std::vector<Bytes> all;
    for (const auto& element : elements)
      all.insert(all.end(), element[i].strings().begin(), element[i].strings().end());
    return Component::Strings(shape, std::move(all));
  }
  RIVULET_ASSIGN_OR_RETURN(Tensor batch, Tensor::Create(first.dtype(), shape));
  std::byte* out = batch.data();
  for (const auto& element : elements) {
    const Tensor& tensor = element[i].tensor();
    if (tensor.bytes() > 0) std::memcpy(out, tensor.data(), tensor.bytes());
    out += tensor.bytes();
  }
  return Component(std::move(batch));
}

StatusOr<Component> StackPadded(std::span<const std::span<const Component>> elements, size_t i, const Shape& padded,
                                const Tensor& padding) {
  const DType dtype = elements[0][i].dtype();
  if (dtype == DType::kString) return InvalidArgument("strings cannot be padded; parse them first");
  RIVULET_ASSIGN_OR_RETURN(Tensor batch, Tensor::Create(dtype, Stacked(elements.size(), padded)));
  const size_t item = SizeOf(dtype);
  const size_t row_bytes = elements.empty() ? 0 : batch.bytes() / elements.size();
  for (size_t at = 0; at < batch.bytes(); at += item) std::memcpy(batch.data() + at, padding.data(), item);
  for (size_t row = 0; row < elements.size(); ++row) {
    const Component& component = elements[row][i];
    const Shape& shape = component.shape();
    bool fits = shape.rank() == padded.rank();
    for (int axis = 0; fits && axis < padded.rank(); ++axis) fits = shape.dim(axis) <= padded.dim(axis);
    if (!fits)
      return InvalidArgument("Attempted to pad to a smaller size than the input element: {} to {} in component {}.",
                             shape.ToString(), padded.ToString(), i);
    const Tensor& tensor = component.tensor();
    if (tensor.bytes() == 0) continue;
    // Copies runs along the last axis; indices give each run's position in the padded row.
    const int rank = padded.rank();
    const int64_t run = rank == 0 ? 1 : shape.dim(rank - 1);
    const int64_t runs = tensor.elements() / run;
    std::byte* const out = batch.data() + row * row_bytes;
    for (int64_t k = 0; k < runs; ++k) {
      int64_t rest = k, offset = 0, stride = rank == 0 ? 1 : padded.dim(rank - 1);
      for (int axis = rank - 2; axis >= 0; --axis) {
        offset += rest % shape.dim(axis) * stride;
        rest /= shape.dim(axis);
        stride *= padded.dim(axis);
      }
      std::memcpy(out + static_cast<size_t>(offset) * item, tensor.data() + static_cast<size_t>(k * run) * item,
                  static_cast<size_t>(run) * item);
    }
  }
  return Component(std::move(batch));
}

}  // namespace rivulet
