#include "engine/tensor/tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "engine/base/available_memory.h"
#include "engine/base/missing_memory.h"

namespace rivulet {

namespace {

// Zeroed memory, in large pages if the system has them. Weights and arenas are read sequentially, and in blocks of
// columns whose rows are a small page apart; with small pages each of these waits for an address translation (8 % of a
// step of mobilenet_v2, 5 % of femnist_cnn). Only whole large pages inside the buffer are requested, and all are
// touched here, so that memory use does not grow.
void ClearInLargePages(std::byte* data, size_t bytes) {
  constexpr uintptr_t kPage = uintptr_t{2} << 20;
  constexpr size_t kFrom = size_t{4} << 20;
  if (bytes >= kFrom) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(data), first = (begin + kPage - 1) / kPage * kPage;
    // A hint: without it the buffer is the same, only slower.
    madvise(data + (first - begin), (begin + bytes) / kPage * kPage - first, MADV_HUGEPAGE);
  }
  std::memset(data, 0, bytes);
}

}  // namespace

AlignedBuffer::AlignedBuffer(size_t bytes) : size_(bytes) {
  // calloc-like zero pages for large sizes would need an own mapping; a planned arena is touched once anyway.
  data_.reset(static_cast<std::byte*>(::operator new[](bytes == 0 ? 1 : bytes, std::align_val_t{64})));
  ClearInLargePages(data_.get(), bytes);
}

StatusOr<AlignedBuffer> AlignedBuffer::Create(size_t bytes) {
  // A system that promises more than it has would end the process once the pages are touched.
  static const size_t kMachineBytes =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > kMachineBytes)
    return ResourceExhausted("{} bytes were asked for, and the machine has {}", bytes, kMachineBytes);
  // Looking costs some reads of files; a smaller buffer does not decide whether there is enough.
  constexpr size_t kLooked = size_t{256} << 20;
  if (bytes >= kLooked) {
    if (const size_t left = AvailableMemory(); bytes > left)
      return ResourceExhausted("{} bytes were asked for, and {} of the machine's {} are available", bytes, left,
                               kMachineBytes);
  }
  AlignedBuffer buffer;
  const MemoryMayBeRefused refusable;
  buffer.data_.reset(
      static_cast<std::byte*>(::operator new[](bytes == 0 ? 1 : bytes, std::align_val_t{64}, std::nothrow)));
  if (buffer.data_ == nullptr) return ResourceExhausted("the machine has no {} bytes left", bytes);
  buffer.size_ = bytes;
  ClearInLargePages(buffer.data_.get(), bytes);
  return buffer;
}

void AlignedBuffer::Free::operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }

StatusOr<Tensor> Tensor::Create(DType dtype, Shape shape) {
  if (SizeOf(dtype) == 0) return InvalidArgument("there is no tensor of {}, which has no values", Name(dtype));
  RIVULET_ASSIGN_OR_RETURN(const int64_t elements, shape.CheckedElements());
  RIVULET_ASSIGN_OR_RETURN(AlignedBuffer buffer, AlignedBuffer::Create(static_cast<size_t>(elements) * SizeOf(dtype)));
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.buffer_ = std::make_shared<AlignedBuffer>(std::move(buffer));
  return tensor;
}

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  const StatusOr<int64_t> elements = shape_.CheckedElements();
  RIVULET_CHECK(elements.ok() && SizeOf(dtype) > 0, "a tensor of {} {}", Name(dtype), shape_.ToString());
  buffer_ = std::make_shared<AlignedBuffer>(static_cast<size_t>(*elements) * SizeOf(dtype));
}

}  // namespace rivulet
