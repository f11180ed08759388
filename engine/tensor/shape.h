// Shapes, possibly partly unknown. A dimension of -1 is unknown (typically the batch); the rank may be unknown too.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

inline constexpr int64_t kUnknownDim = -1;

class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}
  static Shape UnknownRank() {
    Shape shape;
    shape.known_rank_ = false;
    return shape;
  }

  bool known_rank() const { return known_rank_; }
  int rank() const { return static_cast<int>(dims_.size()); }  // 0 if the rank is unknown
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis)]; }
  std::span<const int64_t> dims() const { return dims_; }
  void set_dim(int axis, int64_t size) { dims_[static_cast<size_t>(axis)] = size; }
  bool IsFullyKnown() const;
  // Returns the product of the dimensions. The shape must be fully known and must have passed CheckedElements.
  int64_t elements() const;
  // Returns the number of elements. INVALID_ARGUMENT: a dimension is negative or unknown, or the product exceeds 2^40.
  StatusOr<int64_t> CheckedElements() const;
  std::string ToString() const;  // "[?,28,28,1]", "<unknown>"
  bool operator==(const Shape&) const = default;

  // Returns true if some fully known shape matches both.
  static bool Compatible(const Shape& a, const Shape& b);
  // Returns the more specific of two compatible shapes. INVALID_ARGUMENT names both otherwise.
  static StatusOr<Shape> Merge(const Shape& a, const Shape& b);
  // Broadcasts two shapes as NumPy does. An unknown dimension stays unknown unless the other shape determines it.
  // INVALID_ARGUMENT names the dimension that clashes.
  static StatusOr<Shape> Broadcast(const Shape& a, const Shape& b);

 private:
  bool known_rank_ = true;
  std::vector<int64_t> dims_;
};

}  // namespace rivulet
