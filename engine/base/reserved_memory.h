// Reserved address space for a buffer of unknown final size: memory is used only up to the highest written byte.
#pragma once

#include <cstddef>

namespace rivulet {

class ReservedMemory {
 public:
  ReservedMemory() = default;
  // `bytes` of zeros, at an address that is a multiple of a page. No memory where the system does not give the
  // addresses.
  explicit ReservedMemory(size_t bytes);
  ~ReservedMemory();
  ReservedMemory(ReservedMemory&& other) noexcept;
  ReservedMemory& operator=(ReservedMemory&& other) noexcept;

  std::byte* data() const { return data_; }  // null: there is none
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace rivulet
