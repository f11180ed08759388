// Elements that ops move: each element of the output
// has the value of an input's element, by its index.
#include <algorithm>
#include <numeric>

#include "engine/graph/symbolic_values.h"

namespace rivulet {
namespace {

using Indices = std::vector<int64_t>;

int64_t CountOf(std::span<const int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

Indices PlaceOf(int64_t flat, std::span<const int64_t> dims) {
  Indices place(dims.size());
  for (size_t axis = dims.size(); axis-- > 0;) {
    place[axis] = flat % dims[axis];
    flat /= dims[axis];
  }
  return place;
}

int64_t FlatOf(std::span<const int64_t> place, std::span<const int64_t> dims) {
  int64_t flat = 0;
  for (size_t axis = 0; axis < dims.size(); ++axis) flat = flat * dims[axis] + place[axis];
  return flat;
}

class Mover {
 public:
  explicit Mover(const ElementRule& rule) : rule_(rule), node_(rule.node), dims_(rule.shape.dims()) {}

  MaybeElements Moved() const {
    const std::string_view op = node_.type();
    if (op == "Identity" || op == "StopGradient" || op == "PreventGradient" || op == "Snapshot" || op == "Reshape" ||
        op == "ExpandDims" || op == "Squeeze" || op == "EnsureShape" || op == "Cast")
      return AsItIs();
    if (op == "Pack" || op == "ConcatV2") return Joined(op == "Pack");
    if (op == "Unpack" || op == "Split" || op == "SplitV") return Parted(op);
    if (op == "StridedSlice") return Strided();
    if (op == "Slice") return Sliced();
    if (op == "Gather" || op == "GatherV2") return Gathered(op == "GatherV2");
    if (op == "Transpose") return Transposed();
    if (op == "BroadcastTo" || op == "Fill" || op == "Tile") return Repeated(op == "Fill" ? 1 : 0);
    return std::nullopt;
  }

 private:
  const Elements* In(size_t i) const { return i < rule_.inputs.size() ? rule_.inputs[i] : nullptr; }
  // The numbers of input i; nullopt if one of its elements is not a number.
  std::optional<Indices> Numbers(size_t i) const {
    const Elements* const elements = In(i);
    if (elements == nullptr || !std::ranges::all_of(elements->values, &Dimension::IsNumber)) return std::nullopt;
    Indices numbers;
    for (const Dimension& value : elements->values) numbers.push_back(value.number());
    return numbers;
  }
  std::optional<int> Axis(size_t input, int rank) const {
    const std::optional<Indices> axis = Numbers(input);
    if (!axis || axis->size() != 1) return std::nullopt;
    return InRange((*axis)[0], rank);
  }
  static std::optional<int> InRange(int64_t axis, int rank) {
    if (axis < -rank || axis >= rank) return std::nullopt;
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  }
  int64_t Attr(std::string_view name) const {
    const int64_t* value = node_.FindAttr<int64_t>(name);
    return value == nullptr ? 0 : *value;
  }
  // The output's elements; `from` maps each index to an index of input i.
  template <typename From>
  MaybeElements Taken(size_t i, const From& from) const {
    const Elements* const source = In(i);
    if (source == nullptr) return std::nullopt;
    std::vector<std::optional<Dimension>> taken;
    for (int64_t flat = 0, count = CountOf(dims_); flat < count; ++flat) {
      const Indices place = from(PlaceOf(flat, dims_));
      bool inside = place.size() == source->shape.dims().size();
      for (size_t axis = 0; inside && axis < place.size(); ++axis)
        inside = place[axis] >= 0 && place[axis] < source->shape.dims()[axis];
      if (!inside) return std::nullopt;
      taken.emplace_back(source->values[static_cast<size_t>(FlatOf(place, source->shape.dims()))]);
    }
    return taken;
  }

  MaybeElements AsItIs() const {
    const Elements* const source = In(0);
    if (source == nullptr || static_cast<int64_t>(source->values.size()) != CountOf(dims_)) return std::nullopt;
    if (node_.type() == "Cast" && node_.outputs()[0].dtype == DType::kBool && node_.input(0).dtype() != DType::kBool)
      return std::nullopt;  // a comparison: element_arithmetic.cc
    return std::vector<std::optional<Dimension>>(source->values.begin(), source->values.end());
  }

  MaybeElements Joined(bool pack) const {
    const size_t parts = rule_.inputs.size() - (pack ? 0 : 1);
    const auto rank = static_cast<int>(dims_.size());
    const std::optional<int> axis = pack ? InRange(Attr("axis"), rank) : Axis(parts, rank);
    if (!axis) return std::nullopt;
    std::vector<std::optional<Dimension>> joined;
    for (int64_t flat = 0, count = CountOf(dims_); flat < count; ++flat) {
      Indices place = PlaceOf(flat, dims_);
      int64_t& along = place[static_cast<size_t>(*axis)];
      size_t part = 0;
      if (pack) {
        part = static_cast<size_t>(along);
        place.erase(place.begin() + *axis);
      } else {
        // Sizes of the parts may be known even if their elements are not.
        while (part < parts) {
          const Shape& shape = In(part) != nullptr ? In(part)->shape : node_.input(static_cast<int>(part)).shape();
          if (!shape.IsFullyKnown() || shape.rank() != rank) return std::nullopt;
          if (along < shape.dim(*axis)) break;
          along -= shape.dim(*axis);
          ++part;
        }
      }
      if (part >= parts) return std::nullopt;
      const Elements* const source = In(part);
      joined.push_back(source == nullptr
                           ? std::nullopt
                           : std::optional(source->values[static_cast<size_t>(FlatOf(place, source->shape.dims()))]));
    }
    return joined;
  }

  MaybeElements Parted(std::string_view op) const {
    const size_t source = op == "Split" ? 1 : 0;
    if (In(source) == nullptr) return std::nullopt;
    const Shape& whole = In(source)->shape;
    std::optional<int> axis;
    int64_t begin = 0;
    if (op == "Unpack") {
      axis = InRange(Attr("axis"), whole.rank());
      begin = rule_.port;
    } else if (op == "Split") {
      axis = Axis(0, whole.rank());
      if (axis) begin = rule_.port * rule_.shape.dim(*axis);
    } else {
      axis = Axis(2, whole.rank());
      const std::optional<Indices> sizes = Numbers(1);
      if (!axis || !sizes || std::ranges::find(*sizes, -1) != sizes->end()) return std::nullopt;
      for (int port = 0; port < rule_.port; ++port) begin += (*sizes)[static_cast<size_t>(port)];
    }
    if (!axis) return std::nullopt;
    return Taken(source, [&](Indices place) {
      if (op == "Unpack")
        place.insert(place.begin() + *axis, begin);
      else
        place[static_cast<size_t>(*axis)] += begin;
      return place;
    });
  }

  // Along each axis a start and a step, or one index that removes the axis: the masks as in TensorFlow.
  MaybeElements Strided() const {
    const std::optional<Indices> strides = Numbers(3);
    const Elements *const begins = In(1), *const ends = In(2);
    if (In(0) == nullptr || !strides || begins == nullptr || ends == nullptr) return std::nullopt;
    if (Attr("ellipsis_mask") != 0 || Attr("new_axis_mask") != 0) return std::nullopt;
    const std::span<const int64_t> whole = In(0)->shape.dims();
    const size_t given = strides->size();
    if (given > whole.size() || begins->values.size() != given || ends->values.size() != given) return std::nullopt;
    const int64_t shrink = Attr("shrink_axis_mask"), begin_mask = Attr("begin_mask");
    Indices first(whole.size(), 0), step(whole.size(), 1);
    for (size_t axis = 0; axis < given; ++axis) {
      const int64_t bit = int64_t{1} << axis, size = whole[axis], stride = (*strides)[axis];
      if (stride == 0) return std::nullopt;
      step[axis] = stride;
      if ((begin_mask & bit) != 0 && (shrink & bit) == 0) {
        first[axis] = stride > 0 ? 0 : size - 1;
        continue;
      }
      if (!begins->values[axis].IsNumber()) return std::nullopt;
      int64_t at = begins->values[axis].number();
      if (at < 0) at += size;
      first[axis] = (shrink & bit) != 0 ? at
                    : stride > 0        ? std::clamp<int64_t>(at, 0, size)
                                        : std::clamp<int64_t>(at, -1, size - 1);
    }
    return Taken(0, [&](const Indices& place) {
      Indices from = first;
      size_t next = 0;
      for (size_t axis = 0; axis < from.size(); ++axis) {
        if (axis < given && (shrink >> axis & 1) != 0) continue;
        if (next == place.size()) return Indices{-1};
        from[axis] += place[next++] * step[axis];
      }
      return from;
    });
  }

  MaybeElements Sliced() const {
    const std::optional<Indices> begin = Numbers(1);
    if (!begin || begin->size() != dims_.size()) return std::nullopt;
    return Taken(0, [&](Indices place) {
      for (size_t axis = 0; axis < place.size(); ++axis) place[axis] += (*begin)[axis];
      return place;
    });
  }

  MaybeElements Gathered(bool with_axis) const {
    const std::optional<Indices> at = Numbers(1);
    if (In(0) == nullptr || !at || Attr("batch_dims") != 0) return std::nullopt;
    const std::optional<int> axis = with_axis ? Axis(2, In(0)->shape.rank()) : std::optional(0);
    if (!axis) return std::nullopt;
    const std::span<const int64_t> places = In(1)->shape.dims();
    return Taken(0, [&](const Indices& place) {
      if (place.size() < static_cast<size_t>(*axis) + places.size()) return Indices{-1};
      const auto cut = place.begin() + *axis;
      const Indices which(cut, cut + static_cast<int64_t>(places.size()));
      Indices from(place.begin(), cut);
      from.push_back((*at)[static_cast<size_t>(FlatOf(which, places))]);
      from.insert(from.end(), cut + static_cast<int64_t>(places.size()), place.end());
      return from;
    });
  }

  MaybeElements Transposed() const {
    const std::optional<Indices> perm = Numbers(1);
    if (!perm || perm->size() != dims_.size()) return std::nullopt;
    for (const int64_t axis : *perm)
      if (!InRange(axis, static_cast<int>(dims_.size()))) return std::nullopt;
    return Taken(0, [&](const Indices& place) {
      Indices from(place.size());
      for (size_t axis = 0; axis < place.size(); ++axis)
        from[static_cast<size_t>(*InRange((*perm)[axis], static_cast<int>(place.size())))] = place[axis];
      return from;
    });
  }

  // Repeats each axis of the source as often as it fits, from the last one on.
  MaybeElements Repeated(size_t source) const {
    const std::span<const int64_t> whole =
        In(source) == nullptr ? std::span<const int64_t>() : In(source)->shape.dims();
    if (whole.size() > dims_.size()) return std::nullopt;
    return Taken(source, [&](const Indices& place) {
      Indices from(place.end() - static_cast<int64_t>(whole.size()), place.end());
      for (size_t axis = 0; axis < from.size(); ++axis) from[axis] %= std::max<int64_t>(1, whole[axis]);
      return from;
    });
  }

  const ElementRule& rule_;
  const Node& node_;
  std::span<const int64_t> dims_;
};

}  // namespace

MaybeElements MovedElements(const ElementRule& rule) { return Mover(rule).Moved(); }

}  // namespace rivulet
