#include "federated/plan/flat_names.h"

#include <algorithm>
#include <charconv>

namespace rivulet {

StatusOr<TensorSpec> FlatSpec(std::string_view name, const ModelLayout& layout, const FlatNames& names) {
  const auto flat = [&](size_t bytes) {
    return TensorSpec{DType::kFloat32, Shape{static_cast<int64_t>(bytes / sizeof(float))}};
  };
  const auto numbered = [&](std::string_view prefix, int count) {
    if (!name.starts_with(prefix)) return false;
    int number = -1;
    const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
    return error == std::errc() && end == name.data() + name.size() && number >= 0 && number < count;
  };
  const auto named = [&](std::string_view prefix, const std::vector<std::string>& known) {
    return name.starts_with(prefix) && std::ranges::find(known, name.substr(prefix.size())) != known.end();
  };
  const auto kept = [&] {
    return name.starts_with(kStatePrefix) &&
           std::ranges::any_of(names.state, [rest = name.substr(kStatePrefix.size())](const StateVector& state) {
             return state.name == rest;
           });
  };
  const bool shared = layout.segment_bytes(Segment::kShared) > 0;
  if (shared && (name == "shared" || name == "base_shared")) return flat(layout.segment_bytes(Segment::kShared));
  if (name == "params" || name == "grads" || name == "base_params" || numbered("slots/", names.slots) ||
      named(kUpdatePrefix, names.update) || named(kBroadcastPrefix, names.broadcast) || kept() ||
      (names.other_grads && name == "other_grads"))
    return flat(layout.trained_bytes());
  if (name == "round" || name == "steps" || numbered("scalars/", names.scalars) ||
      named(kNumbersPrefix, names.numbers) || named(kMeasuredPrefix, names.measured) ||
      named(kDeclaredPrefix, names.declared))
    return TensorSpec{DType::kFloat64, Shape{}};
  return NotFound("'{}' is no flat variable of a plan with {} slots, {} scalars{}", name, names.slots, names.scalars,
                  shared ? "" : " and no shared variables");
}

bool IsModelVector(std::string_view flat) {
  return flat.starts_with(kStatePrefix) || flat.starts_with(kSlotPrefix) || flat.starts_with(kBroadcastPrefix);
}

bool IsScalar(std::string_view flat) {
  return flat == "round" || flat == "steps" || flat.starts_with("scalars/") || flat.starts_with(kNumbersPrefix) ||
         flat.starts_with(kMeasuredPrefix) || flat.starts_with(kDeclaredPrefix);
}

bool OnlyRead(std::string_view flat) {
  return flat == "base_params" || flat == "base_shared" || flat == "round" || flat == "steps" ||
         flat.starts_with(kBroadcastPrefix) || flat.starts_with(kNumbersPrefix) || flat.starts_with(kMeasuredPrefix);
}

}  // namespace rivulet
