#include "engine/debug/statistics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "engine/tensor/float16.h"

namespace rivulet {
namespace {

template <typename T>
double At(const TensorView& tensor, int64_t i) {
  return static_cast<double>(reinterpret_cast<const T*>(tensor.data)[i]);
}
template <typename T>
double At16(const TensorView& tensor, int64_t i) {
  return static_cast<double>(static_cast<float>(reinterpret_cast<const T*>(tensor.data)[i]));
}

using Reader = double (*)(const TensorView&, int64_t);
Reader ReaderOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return At<float>;
    case DType::kFloat64:
      return At<double>;
    case DType::kFloat16:
      return At16<float16>;
    case DType::kBFloat16:
      return At16<bfloat16>;
    case DType::kInt8:
      return At<int8_t>;
    case DType::kInt16:
      return At<int16_t>;
    case DType::kInt32:
      return At<int32_t>;
    case DType::kInt64:
      return At<int64_t>;
    case DType::kUint8:
      return At<uint8_t>;
    case DType::kUint16:
      return At<uint16_t>;
    case DType::kUint32:
      return At<uint32_t>;
    case DType::kUint64:
      return At<uint64_t>;
    case DType::kBool:
      return At<bool>;
    default:
      return nullptr;
  }
}

}  // namespace

double ElementOf(const TensorView& tensor, int64_t i) {
  const Reader read = ReaderOf(tensor.dtype);
  return read == nullptr ? 0 : read(tensor, i);
}

// Moments cover the finite elements only: a single NaN would make them all NaN and hide the rest.
TensorStatistics StatisticsOf(const TensorView& tensor) {
  TensorStatistics statistics;
  statistics.elements = tensor.shape.elements();
  const Reader read = ReaderOf(tensor.dtype);
  if (read == nullptr) {
    statistics.zero = statistics.elements;
    return statistics;
  }
  double sum = 0;
  statistics.min = std::numeric_limits<double>::infinity();
  statistics.max = -statistics.min;
  for (int64_t i = 0; i < statistics.elements; ++i) {
    const double value = read(tensor, i);
    if (std::isnan(value)) {
      ++statistics.nan;
    } else if (std::isinf(value)) {
      ++(value < 0 ? statistics.negative_infinite : statistics.positive_infinite);
    } else {
      ++(value < 0 ? statistics.negative : value > 0 ? statistics.positive : statistics.zero);
      statistics.min = std::min(statistics.min, value);
      statistics.max = std::max(statistics.max, value);
      sum += value;
    }
  }
  const auto finite = static_cast<double>(statistics.finite());
  if (statistics.finite() == 0) {
    statistics.min = statistics.max = 0;
    return statistics;
  }
  statistics.mean = sum / finite;
  double squares = 0;  // about the mean: no cancellation
  for (int64_t i = 0; i < statistics.elements; ++i) {
    const double value = read(tensor, i);
    if (std::isfinite(value)) squares += (value - statistics.mean) * (value - statistics.mean);
  }
  statistics.deviation = std::sqrt(squares / finite);
  return statistics;
}

StatusOr<WatchCondition> WatchCondition::Parse(std::string_view text) {
  std::string dense;
  std::copy_if(text.begin(), text.end(), std::back_inserter(dense), [](char c) { return c != ' '; });
  WatchCondition condition;
  condition.text_ = dense;
  if (dense == "has_nan") return condition;
  if (dense == "has_inf") {
    condition.kind_ = Kind::kInf;
    return condition;
  }
  if (dense == "has_inf_or_nan") {
    condition.kind_ = Kind::kInfOrNan;
    return condition;
  }
  constexpr std::pair<std::string_view, Kind> kComparisons[] = {
      {"abs>", Kind::kAbs}, {"max>", Kind::kMax}, {"min<", Kind::kMin}};
  for (const auto& [prefix, kind] : kComparisons) {
    if (!dense.starts_with(prefix)) continue;
    condition.kind_ = kind;
    const char* begin = dense.data() + prefix.size();
    const char* end = dense.data() + dense.size();
    const auto [stopped, error] = std::from_chars(begin, end, condition.bound_);
    if (begin != end && error == std::errc() && stopped == end && !std::isnan(condition.bound_)) return condition;
  }
  return InvalidArgument(
      "'{}' is no condition; there is has_nan, has_inf, has_inf_or_nan, and abs>1e3, max>10, min<-10 with any number",
      text);
}

bool WatchCondition::Holds(const TensorStatistics& statistics) const {
  const double infinite = std::numeric_limits<double>::infinity();
  const double max = statistics.positive_infinite > 0 ? infinite : statistics.max;
  const double min = statistics.negative_infinite > 0 ? -infinite : statistics.min;
  const bool any = statistics.elements > statistics.nan;
  switch (kind_) {
    case Kind::kNan:
      return statistics.nan > 0;
    case Kind::kInf:
      return statistics.infinite() > 0;
    case Kind::kInfOrNan:
      return statistics.nan + statistics.infinite() > 0;
    case Kind::kAbs:
      return any && std::max(max, -min) > bound_;
    case Kind::kMax:
      return any && max > bound_;
    case Kind::kMin:
      return any && min < bound_;
  }
  return false;
}

}  // namespace rivulet
