#include "simulations/sweeps/points.h"

#include <charconv>
#include <cmath>
#include <set>

#include "federated/random/streams.h"

namespace rivulet {
namespace {

constexpr size_t kMostPoints = 10'000;  // more are a mistake in a range

struct Axis {
  std::string key;
  std::vector<std::string> values;
};

StatusOr<std::pair<std::string, std::string>> KeyAndRest(const std::string& axis) {
  const size_t equals = axis.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == axis.size()) {
    return InvalidArgument("an axis of a sweep is KEY=VALUES, such as client.epochs=1,5, not '{}'", axis);
  }
  return std::pair(axis.substr(0, equals), axis.substr(equals + 1));
}

// Split at commas outside of quotes and brackets.
std::vector<std::string> ValuesIn(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = '\0';
  for (const char c : text) {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  return values;
}

StatusOr<Axis> AxisOf(const std::string& text) {
  RIVULET_ASSIGN_OR_RETURN(auto axis, KeyAndRest(text));
  Axis result{.key = std::move(axis.first), .values = ValuesIn(axis.second)};
  for (const std::string& value : result.values) {
    if (value.empty()) return InvalidArgument("'{}': a value is missing beside a comma", text);
  }
  return result;
}

StatusOr<double> NumberIn(const std::string& text, const std::string& axis) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end && std::isfinite(number)) return number;
  return InvalidArgument("'{}': '{}' is no number; a random key is KEY=LOW:HIGH or KEY=log:LOW:HIGH", axis, text);
}

StatusOr<Axis> DrawnAxis(const std::string& text, int64_t draws, uint64_t seed) {
  RIVULET_ASSIGN_OR_RETURN(auto axis, KeyAndRest(text));
  auto& [key, range] = axis;
  const bool by_magnitude = range.starts_with("log:");
  if (by_magnitude) range.erase(0, 4);
  const size_t colon = range.find(':');
  RIVULET_ASSIGN_OR_RETURN(double low, NumberIn(range.substr(0, colon), text));
  RIVULET_ASSIGN_OR_RETURN(double high, NumberIn(colon == std::string::npos ? "" : range.substr(colon + 1), text));
  if (low >= high || (by_magnitude && low <= 0)) {
    return InvalidArgument("'{}': a range goes from a lower number to a higher one{}", text,
                           by_magnitude ? ", both above 0" : "");
  }
  Axis result{.key = key, .values = {}};
  Draws stream(StreamFor(seed, key, Purpose::kSynthesize), 0);
  if (by_magnitude) low = std::log(low), high = std::log(high);
  for (int64_t draw = 0; draw < draws; ++draw) {
    const double value = low + (high - low) * stream.Uniform();
    result.values.push_back(fmt::format("{:.4g}", by_magnitude ? std::exp(value) : value));
  }
  return result;
}

// The n-th value of one with the n-th of the others; no axes give one point without keys.
StatusOr<std::vector<SweepPoint>> Side(const std::vector<Axis>& axes) {
  if (axes.empty()) return std::vector<SweepPoint>(1);
  std::vector<SweepPoint> points(axes[0].values.size());
  for (const Axis& axis : axes) {
    if (axis.values.size() != points.size()) {
      return InvalidArgument("lists go together value by value, and {} has {} where {} has {}", axis.key,
                             axis.values.size(), axes[0].key, points.size());
    }
    for (size_t i = 0; i < points.size(); ++i) points[i].emplace_back(axis.key, axis.values[i]);
  }
  return points;
}

Status Multiply(std::vector<SweepPoint>& points, const std::vector<SweepPoint>& others) {
  if (points.size() * others.size() > kMostPoints) {
    return InvalidArgument("a sweep has at most {} points, and these are {} and more", kMostPoints,
                           points.size() * others.size());
  }
  std::vector<SweepPoint> all;
  for (const SweepPoint& point : points) {
    for (const SweepPoint& other : others) {
      SweepPoint& both = all.emplace_back(point);
      both.insert(both.end(), other.begin(), other.end());
    }
  }
  points = std::move(all);
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::vector<SweepPoint>> PointsOf(const SweepAxes& axes) {
  if (axes.randoms.empty() != (axes.draws <= 0)) {
    return InvalidArgument("random keys and the number of their draws are given together");
  }
  std::vector<SweepPoint> points(1);
  for (const std::string& grid : axes.grids) {
    RIVULET_ASSIGN_OR_RETURN(const Axis axis, AxisOf(grid));
    RIVULET_ASSIGN_OR_RETURN(const auto side, Side({axis}));
    RIVULET_RETURN_IF_ERROR(Multiply(points, side));
  }
  std::vector<Axis> lists, drawn;
  for (const std::string& list : axes.lists) {
    RIVULET_ASSIGN_OR_RETURN(lists.emplace_back(), AxisOf(list));
  }
  for (const std::string& random : axes.randoms) {
    RIVULET_ASSIGN_OR_RETURN(drawn.emplace_back(), DrawnAxis(random, axes.draws, axes.seed));
  }
  for (const std::vector<Axis>& together : {lists, drawn}) {
    RIVULET_ASSIGN_OR_RETURN(const auto side, Side(together));
    RIVULET_RETURN_IF_ERROR(Multiply(points, side));
  }
  std::set<std::string> keys;
  for (const auto& [key, value] : points[0]) {
    if (!keys.insert(key).second) return InvalidArgument("'{}' is on two axes of the sweep; leave one of them", key);
  }
  return points;
}

std::string PointName(const SweepPoint& point) {
  std::string name;
  for (const auto& [key, value] : point) name += fmt::format("{}{}={}", name.empty() ? "" : ", ", key, value);
  return name.empty() ? "as it is" : name;
}

}  // namespace rivulet
