// Array of sums: integers in memory that is recycled, or in a file of exactly the array's size. A copy of an array is
// in memory; an array that is moved takes its file along.
//
// It is no std::vector. A vector with its own allocator destroys each element in a loop, and compilers keep that empty
// loop at -O1. It would be a pass over each client's update that does nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "engine/base/recycled_pages.h"

namespace rivulet {

template <class T>
class SumArray {
  static_assert(std::is_integral_v<T>);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  SumArray() = default;
  // Zeros.
  explicit SumArray(size_t size) : SumArray(Memory(size), size) {}
  // Zeros in `file`, of `size` values.
  SumArray(size_t size, std::shared_ptr<std::byte> file) : SumArray(InFile(std::move(file)), size) {}
  SumArray(std::initializer_list<T> values) : SumArray(std::span(values.begin(), values.size())) {}
  SumArray(const SumArray& other) : SumArray(std::span(other.begin(), other.size())) {}
  SumArray(SumArray&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  SumArray& operator=(SumArray other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~SumArray() = default;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool in_file() const { return data_.get_deleter().file != nullptr; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T* begin() { return data(); }
  const T* begin() const { return data(); }
  T* end() { return data() + size_; }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  friend bool operator==(const SumArray& a, const SumArray& b) { return std::ranges::equal(a, b); }

 private:
  struct Free {
    std::shared_ptr<std::byte> file = nullptr;  // null: in memory
    size_t bytes = 0;
    void operator()(T* data) const {
      if (file == nullptr) FreeRecycled(data, bytes);
    }
  };
  using Data = std::unique_ptr<T[], Free>;

  SumArray(Data data, size_t size) : data_(std::move(data)), size_(size) { std::fill_n(data_.get(), size, T{0}); }
  explicit SumArray(std::span<const T> values) : data_(Memory(values.size())), size_(values.size()) {
    std::ranges::copy(values, data());
  }
  static Data Memory(size_t size) {
    if (size == 0) return {};
    const size_t bytes = size * sizeof(T);
    return {static_cast<T*>(AllocateRecycled(bytes)), Free{.bytes = bytes}};
  }
  static Data InFile(std::shared_ptr<std::byte> file) {
    T* const data = reinterpret_cast<T*>(file.get());
    return {data, Free{.file = std::move(file)}};
  }

  Data data_;
  size_t size_ = 0;
};

}  // namespace rivulet
