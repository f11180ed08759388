// Memory size of a value with a given spec. Its shape must be known.
#pragma once

#include <cstddef>

#include "engine/tensor/tensor.h"

namespace rivulet {

// A tensor's elements, one after the other.
inline size_t TensorBytes(const TensorSpec& spec) {
  return static_cast<size_t>(spec.shape.elements()) * SizeOf(spec.dtype);
}

// The same, or of a list: it has a shape, but what stands for it in memory is a handle.
inline size_t ValueBytes(const TensorSpec& spec) {
  return spec.dtype == DType::kVariant ? SizeOf(spec.dtype) : TensorBytes(spec);
}

}  // namespace rivulet
