#include "engine/tensor/tensor.h"

#include <cstdlib>
#include <new>

namespace rivulet {

AlignedBuffer::AlignedBuffer(size_t bytes) : size_(bytes) {
  // calloc-like zero pages for large sizes would need an own mapping; a planned arena is touched once anyway.
  data_.reset(static_cast<std::byte*>(::operator new[](bytes == 0 ? 1 : bytes, std::align_val_t{64})));
  std::memset(data_.get(), 0, bytes);
}

void AlignedBuffer::Free::operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  const StatusOr<int64_t> elements = shape_.CheckedElements();
  RIVULET_CHECK(elements.ok() && SizeOf(dtype) > 0, "a tensor of {} {}", Name(dtype), shape_.ToString());
  buffer_ = std::make_shared<AlignedBuffer>(static_cast<size_t>(*elements) * SizeOf(dtype));
}

}  // namespace rivulet
