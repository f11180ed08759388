#include "federated/codecs/sparse_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "federated/settings/setting_tables.h"

namespace rivulet {
namespace {

static_assert(std::endian::native == std::endian::little, "indices and values travel as they are in memory");

constexpr int64_t kMostSparseElements = int64_t{1} << 32;

}  // namespace

Status SparseValues::Check(std::span<const std::byte> bytes) const {
  if (std::ssize(bytes) != MaxBytes()) {
    return InvalidArgument("it has {} bytes where {} of {} values with their indices have {}", bytes.size(), k_,
                           elements_, MaxBytes());
  }
  const SparseRun run = RunOf(bytes);
  int64_t before = -1;
  for (int64_t i = 0; i < run.count; ++i) {
    const int64_t index = run.index(i);
    if (index <= before || index >= elements_) {
      return InvalidArgument("its index {} after {}, of {} values, is invalid: indices must ascend", index, before,
                             elements_);
    }
    before = index;
  }
  return absl::OkStatus();
}

void SparseValues::Decode(std::span<const std::byte> bytes, int64_t first, std::span<float> out) const {
  std::ranges::fill(out, 0.0f);
  const SparseRun run = RunOf(bytes);
  int64_t i = 0;  // the first index that is not before `first`
  for (int64_t end = run.count; i < end;) {
    const int64_t middle = i + (end - i) / 2;
    if (run.index(middle) < first) {
      i = middle + 1;
    } else {
      end = middle;
    }
  }
  for (; i < run.count; ++i) {
    const int64_t at = run.index(i) - first;
    if (at >= std::ssize(out)) break;
    out[static_cast<size_t>(at)] = run.value(i);
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

Setting FractionOfValues() {
  return WithExample(Float("fraction", 0.01, "Share of an update's values that is sent.").Between(1e-9, 1), "0.1");
}

StatusOr<int64_t> ValuesOfFraction(int64_t elements, const Settings& settings) {
  if (elements > kMostSparseElements) return InvalidArgument("a part of {} values has no indices of 32 bits", elements);
  // 0.3 × 10 is slightly above 3 in binary, but 3 is intended.
  const double wanted = std::ceil(settings.number("fraction") * static_cast<double>(elements) - 1e-9);
  return std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, elements);
}

}  // namespace rivulet
