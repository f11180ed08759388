// Dense host tensors, row-major. Tensors share ownership of a 64-byte aligned buffer; a TensorView borrows one.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/status.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace rivulet {

struct TensorSpec {
  DType dtype = DType::kFloat32;
  Shape shape;
  bool operator==(const TensorSpec&) const = default;
};

// Zeroed memory with 64-byte alignment.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // For sizes that the program chooses itself. Ends the process if memory is short.
  explicit AlignedBuffer(size_t bytes);
  // For sizes from outside. RESOURCE_EXHAUSTED: more than the machine's memory, or than it can provide now.
  static StatusOr<AlignedBuffer> Create(size_t bytes);
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data(), size_}; }
  std::span<const std::byte> bytes() const { return {data(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

struct TensorView {
  std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  Shape shape;
  template <typename T>
  std::span<T> flat() const {
    RIVULET_CHECK(dtype == kDTypeOf<std::remove_const_t<T>>);
    return {reinterpret_cast<T*>(data), static_cast<size_t>(shape.elements())};
  }
  size_t bytes() const { return static_cast<size_t>(shape.elements()) * SizeOf(dtype); }
};

class Tensor {
 public:
  Tensor() = default;                // float32 scalar without a buffer: "no tensor"
  Tensor(DType dtype, Shape shape);  // zeros; for sizes that the program chooses itself, as AlignedBuffer
  // Makes zeros, for sizes from outside. INVALID_ARGUMENT: the shape is not fully known or has more than 2^40 elements,
  // or the type has no values. RESOURCE_EXHAUSTED as for AlignedBuffer::Create.
  static StatusOr<Tensor> Create(DType dtype, Shape shape);
  template <typename T>
  static Tensor Of(Shape shape, std::span<const T> values) {
    Tensor tensor(kDTypeOf<T>, std::move(shape));
    RIVULET_CHECK(static_cast<int64_t>(values.size()) == tensor.elements());
    if (!values.empty()) std::memcpy(tensor.data(), values.data(), values.size_bytes());
    return tensor;
  }
  template <typename T>
  static Tensor Of(Shape shape, std::initializer_list<T> values) {
    return Of<T>(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }
  template <typename T>
  static Tensor Scalar(T value) {
    return Of<T>(Shape{}, {value});
  }

  bool empty() const { return buffer_ == nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return shape_.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * SizeOf(dtype_); }
  std::byte* data() { return buffer_->data(); }
  const std::byte* data() const { return buffer_->data(); }
  template <typename T>
  std::span<T> flat() {
    return view().flat<T>();
  }
  template <typename T>
  std::span<const T> flat() const {
    return view().flat<const T>();
  }
  TensorView view() const { return {buffer_->data(), dtype_, shape_}; }

 private:
  DType dtype_ = DType::kFloat32;
  Shape shape_;
  std::shared_ptr<AlignedBuffer> buffer_;
};

}  // namespace rivulet
