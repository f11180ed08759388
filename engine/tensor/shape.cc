#include "engine/tensor/shape.h"

#include <algorithm>

namespace rivulet {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 40;

std::string DimToString(int64_t dim) { return dim == kUnknownDim ? "?" : fmt::format("{}", dim); }

}  // namespace

bool Shape::IsFullyKnown() const {
  return known_rank_ && std::none_of(dims_.begin(), dims_.end(), [](int64_t dim) { return dim < 0; });
}

// Unsigned, because the sizes before a zero may overflow: such a shape is a valid one (CheckedElements), of no
// elements.
int64_t Shape::elements() const {
  uint64_t product = 1;
  for (int64_t dim : dims_) product *= static_cast<uint64_t>(dim);
  return static_cast<int64_t>(product);
}

// Divided and not multiplied, as the product may overflow before it is compared. A dimension of zero comes first: it
// makes any product zero, however large the others are.
StatusOr<int64_t> Shape::CheckedElements() const {
  if (!IsFullyKnown()) return InvalidArgument("the shape {} is not fully known", ToString());
  if (std::find(dims_.begin(), dims_.end(), 0) != dims_.end()) return 0;
  int64_t product = 1;
  for (int64_t dim : dims_) {
    if (product > kMaxElements / dim) return InvalidArgument("the shape {} has more than 2^40 elements", ToString());
    product *= dim;
  }
  return product;
}

std::string Shape::ToString() const {
  if (!known_rank_) return "<unknown>";
  std::string text = "[";
  for (size_t i = 0; i < dims_.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ",", DimToString(dims_[i]));
  return text + "]";
}

bool Shape::Compatible(const Shape& a, const Shape& b) {
  if (!a.known_rank() || !b.known_rank()) return true;
  if (a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i)
    if (a.dim(i) != kUnknownDim && b.dim(i) != kUnknownDim && a.dim(i) != b.dim(i)) return false;
  return true;
}

StatusOr<Shape> Shape::Merge(const Shape& a, const Shape& b) {
  if (!Compatible(a, b)) return InvalidArgument("the shapes {} and {} differ", a.ToString(), b.ToString());
  if (!a.known_rank()) return b;
  if (!b.known_rank()) return a;
  Shape merged = a;
  for (int i = 0; i < a.rank(); ++i)
    if (a.dim(i) == kUnknownDim) merged.set_dim(i, b.dim(i));
  return merged;
}

// Right-aligned, as NumPy. An unknown dimension beside one that is not 1 can only be that one, or 1, and either gives
// it.
StatusOr<Shape> Shape::Broadcast(const Shape& a, const Shape& b) {
  if (!a.known_rank() || !b.known_rank()) return UnknownRank();
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    const int in_a = i - (rank - a.rank()), in_b = i - (rank - b.rank());
    const int64_t x = in_a < 0 ? 1 : a.dim(in_a), y = in_b < 0 ? 1 : b.dim(in_b);
    int64_t& out = dims[static_cast<size_t>(i)];
    if (x == 1) {
      out = y;
    } else if (y == 1 || x == y) {
      out = x;
    } else if (x == kUnknownDim) {
      out = y;  // the unknown one is 1 or y
    } else if (y == kUnknownDim) {
      out = x;
    } else {
      return InvalidArgument("the shapes {} and {} cannot be broadcast together: dimension {} is {} and {}",
                             a.ToString(), b.ToString(), i, x, y);
    }
  }
  return Shape(std::move(dims));
}

}  // namespace rivulet
