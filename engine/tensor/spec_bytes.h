// Memory size of a value with a given spec. Its shape must be known.
#pragma once

#include <cstddef>

#include "engine/tensor/tensor.h"

namespace rivulet {

// Returns the size of a tensor's elements, stored contiguously.
inline size_t TensorBytes(const TensorSpec& spec) {
  return static_cast<size_t>(spec.shape.elements()) * SizeOf(spec.dtype);
}

// The same, but for a list returns the size of its handle: a list has a shape, but memory holds only the handle.
inline size_t ValueBytes(const TensorSpec& spec) {
  return spec.dtype == DType::kVariant ? SizeOf(spec.dtype) : TensorBytes(spec);
}

}  // namespace rivulet
