#include "engine/debug/slice.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace rivulet {
namespace {

// One place between commas.
struct Place {
  bool ellipsis = false;
  bool index = false;  // a single integer, in `start`
  std::optional<int64_t> start, stop, step;
};

// The selected part of one axis.
struct Taken {
  int64_t start = 0, step = 1, count = 0;
  bool keeps_axis = true;
};

StatusOr<Place> ParsePlace(std::string_view text, std::string_view whole) {
  const auto malformed = [&] {
    return InvalidArgument("'{}' is no slice; write [0, 2:8, ::2, -1] or [..., 0]", whole);
  };
  if (text == "...") return Place{.ellipsis = true};
  Place place;
  std::optional<int64_t>* parts[] = {&place.start, &place.stop, &place.step};
  size_t part = 0;
  while (true) {
    const size_t colon = text.find(':');
    const std::string_view number = text.substr(0, colon);
    if (!number.empty()) {
      int64_t value = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
      if (error != std::errc() || end != number.data() + number.size()) return malformed();
      *parts[part] = value;
    }
    if (colon == std::string_view::npos) break;
    if (++part == 3) return malformed();
    text.remove_prefix(colon + 1);
  }
  place.index = part == 0;
  if (place.index && !place.start) return malformed();
  return place;
}

StatusOr<std::vector<Place>> Parse(std::string_view slice) {
  std::string dense;
  std::copy_if(slice.begin(), slice.end(), std::back_inserter(dense), [](char c) { return c != ' '; });
  std::vector<Place> places;
  if (dense.empty() || dense == "[]") return places;
  if (dense.front() != '[' || dense.back() != ']')
    return InvalidArgument("'{}' is no slice; write [0, 2:8, ::2, -1] or [..., 0]", slice);
  std::string_view rest = std::string_view(dense).substr(1, dense.size() - 2);
  while (true) {
    const size_t comma = rest.find(',');
    RIVULET_ASSIGN_OR_RETURN(const Place place, ParsePlace(rest.substr(0, comma), slice));
    places.push_back(place);
    if (comma == std::string_view::npos) return places;
    rest.remove_prefix(comma + 1);
  }
}

StatusOr<Taken> TakeOf(const Place& place, int axis, int64_t size) {
  if (place.index) {
    const int64_t index = *place.start < 0 ? *place.start + size : *place.start;
    if (index < 0 || index >= size)
      return OutOfRange("index {} is beyond axis {}, which has {} elements", *place.start, axis, size);
    return Taken{index, 1, 1, false};
  }
  const int64_t step = place.step.value_or(1);
  // Larger steps take one element, as these do; and they cannot overflow.
  const int64_t bounded = std::clamp<int64_t>(step, -(int64_t{1} << 41), int64_t{1} << 41);
  if (step == 0) return InvalidArgument("the step of a slice cannot be 0");
  // As NumPy, which lets ranges reach beyond an axis and refuses single indices that do.
  const auto clamped = [&](int64_t at) {
    if (at < 0) at = std::max<int64_t>(at, -size - 1) + size;
    return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  };
  const int64_t start = place.start ? clamped(*place.start) : step > 0 ? 0 : size - 1;
  const int64_t stop = place.stop ? clamped(*place.stop) : step > 0 ? size : -1;
  const int64_t span = step > 0 ? stop - start : start - stop;
  const int64_t stride = step > 0 ? bounded : -bounded;
  return Taken{start, bounded, span <= 0 ? 0 : (span + stride - 1) / stride, true};
}

}  // namespace

StatusOr<Tensor> SliceOf(const TensorView& tensor, std::string_view slice) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<Place> places, Parse(slice));
  const auto rank = static_cast<size_t>(tensor.shape.rank());
  const auto ellipses = std::ranges::count_if(places, [](const Place& place) { return place.ellipsis; });
  if (ellipses > 1) return InvalidArgument("a slice has one ... at most");
  const size_t named = places.size() - static_cast<size_t>(ellipses);
  if (named > rank)
    return InvalidArgument("the slice names {} axes, but the tensor {} has {}", named, tensor.shape.ToString(), rank);
  const auto gap = std::ranges::find_if(places, [](const Place& place) { return place.ellipsis; });
  const auto at = gap - places.begin();
  if (ellipses == 1) places.erase(gap);
  places.insert(places.begin() + (ellipses == 1 ? at : static_cast<std::ptrdiff_t>(named)), rank - named, Place{});

  std::vector<Taken> taken;
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < rank; ++axis) {
    RIVULET_ASSIGN_OR_RETURN(const Taken take,
                             TakeOf(places[axis], static_cast<int>(axis), tensor.shape.dim(static_cast<int>(axis))));
    taken.push_back(take);
    if (take.keeps_axis) dims.push_back(take.count);
  }
  RIVULET_ASSIGN_OR_RETURN(Tensor result, Tensor::Create(tensor.dtype, Shape(std::move(dims))));
  const size_t width = SizeOf(tensor.dtype);
  std::vector<int64_t> position(rank, 0);
  for (int64_t element = 0; element < result.elements(); ++element) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < rank; ++axis)
      offset =
          offset * tensor.shape.dim(static_cast<int>(axis)) + taken[axis].start + position[axis] * taken[axis].step;
    std::memcpy(result.data() + static_cast<size_t>(element) * width, tensor.data + static_cast<size_t>(offset) * width,
                width);
    for (size_t axis = rank; axis-- > 0;) {
      if (++position[axis] < taken[axis].count) break;
      position[axis] = 0;
    }
  }
  return result;
}

}  // namespace rivulet
