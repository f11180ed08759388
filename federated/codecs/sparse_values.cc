#include "federated/codecs/sparse_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "indices and values travel as they lie in memory");

constexpr int64_t kMostSparseElements = int64_t{1} << 32;

int64_t SparseIndexAt(std::span<const std::byte> bytes, size_t i) {
  uint32_t index = 0;
  std::memcpy(&index, bytes.data() + i * sizeof(index), sizeof(index));
  return index;
}

}  // namespace

Status SparseValues::Check(std::span<const std::byte> bytes) const {
  if (std::ssize(bytes) != MaxBytes()) {
    return InvalidArgument("it has {} bytes where {} of {} values with their indices have {}", bytes.size(), k_,
                           elements_, MaxBytes());
  }
  int64_t before = -1;
  for (size_t i = 0; i < k_; ++i) {
    const int64_t index = SparseIndexAt(bytes, i);
    if (index <= before || index >= elements_) {
      return InvalidArgument("its index {} after {}, of {} values, is none: they ascend", index, before, elements_);
    }
    before = index;
  }
  return absl::OkStatus();
}

void SparseValues::Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const {
  std::ranges::fill(out, 0.0f);
  size_t i = 0;  // of the first index that is not before `first`
  for (size_t end = k_; i < end;) {
    const size_t middle = i + (end - i) / 2;
    if (SparseIndexAt(bytes, middle) < first) {
      i = middle + 1;
    } else {
      end = middle;
    }
  }
  for (const std::byte* const values = bytes.data() + k_ * sizeof(uint32_t); i < k_; ++i) {
    const int64_t at = SparseIndexAt(bytes, i) - first;
    if (at >= std::ssize(out)) break;
    std::memcpy(&out[static_cast<size_t>(at)], values + i * sizeof(float), sizeof(float));
  }
}

SparseValues::Writer::Writer(size_t k, std::string& out)
    : out_(out), index_at_(out.size()), value_at_(out.size() + k * sizeof(uint32_t)) {
  out.resize(value_at_ + k * sizeof(float));
}

void SparseValues::Writer::Put(uint32_t index, float value) {
  std::memcpy(out_.data() + index_at_, &index, sizeof(index));
  std::memcpy(out_.data() + value_at_, &value, sizeof(value));
  index_at_ += sizeof(index), value_at_ += sizeof(value);
}

Setting FractionOfValues() { return Float("fraction", 0.01, "Of the values, how many are sent.").Between(1e-9, 1); }

StatusOr<int64_t> ValuesOfFraction(int64_t elements, const Settings& settings) {
  if (elements > kMostSparseElements) return InvalidArgument("a part of {} values has no indices of 32 bits", elements);
  // 0.3 × 10 is a little more than 3 in some notations of 0.3, and 3 is meant.
  const double wanted = std::ceil(settings.number("fraction") * static_cast<double>(elements) - 1e-9);
  return std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, elements);
}

}  // namespace rivulet
