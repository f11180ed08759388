// Elements of an input pipeline. An element has one or more components, each a tensor or an array of byte strings
// (records, which are not tensors here). A source's element may be deferred: it is read and decoded on first access.
// Shuffling, skipping and queueing then cost only an index.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

// One byte string, and its origin.
struct Bytes {
  std::string value;
  std::shared_ptr<const Dataset> source;  // null: not a record
  int64_t index = 0;
  std::string Where() const { return source == nullptr ? "a string" : source->Where(index); }
};

// A tensor, or strings with a shape.
class Component {
 public:
  Component() = default;
  Component(Tensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT: a tensor is a component
  // An array with one string per element of `shape`.
  static Component Strings(Shape shape, std::vector<Bytes> strings);

  DType dtype() const { return strings_ == nullptr ? tensor_.dtype() : DType::kString; }
  const Shape& shape() const { return strings_ == nullptr ? tensor_.shape() : strings_shape_; }
  TensorSpec spec() const { return {dtype(), shape()}; }
  const Tensor& tensor() const;            // requires dtype() other than kString
  std::span<const Bytes> strings() const;  // requires kString as dtype()
  size_t bytes() const;                    // approximate memory

 private:
  Tensor tensor_;
  std::shared_ptr<const std::vector<Bytes>> strings_;
  Shape strings_shape_;
};

// Reads elements by index. Thread-safe.
class ElementSource {
 public:
  virtual ~ElementSource() = default;
  virtual StatusOr<std::vector<Component>> Read(int64_t index) const = 0;
};

class Element {
 public:
  Element() = default;
  Element(std::vector<Component> components) : components_(std::move(components)) {}  // NOLINT
  Element(std::shared_ptr<const ElementSource> source, int64_t index) : source_(std::move(source)), index_(index) {}

  // Reads a deferred element at the first call.
  StatusOr<std::span<const Component>> Components();
  size_t bytes() const;  // current memory

 private:
  std::vector<Component> components_;
  std::shared_ptr<const ElementSource> source_;  // null once it has been read
  int64_t index_ = 0;
};

// "(float32[28,28,1], int64[])".
std::string Describe(std::span<const TensorSpec> specs);
// INVALID_ARGUMENT: another number of components, another type, or an incompatible shape. `where` starts the message,
// `what` names the components.
Status CheckComponents(std::span<const Component> components, std::span<const TensorSpec> specs, std::string_view where,
                       std::string_view what);

// Stacks component `i` of the elements along a new first dimension. INVALID_ARGUMENT: different shapes, with
// TensorFlow's message. RESOURCE_EXHAUSTED: more memory than the machine has.
StatusOr<Component> Stack(std::span<const std::span<const Component>> elements, size_t i);
// The same for elements of one rank; each fills the start of its row of shape `padded` (known), and `padding` (a
// scalar) the rest. INVALID_ARGUMENT: an element larger than `padded`.
StatusOr<Component> StackPadded(std::span<const std::span<const Component>> elements, size_t i, const Shape& padded,
                                const Tensor& padding);

}  // namespace rivulet
