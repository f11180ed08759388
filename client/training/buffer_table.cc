#include "client/training/buffer_table.h"

#include <algorithm>
#include <charconv>

#include "engine/base/check.h"
#include "engine/tensor/spec_bytes.h"
#include "federated/plan/flat_names.h"

namespace rivulet {
namespace {

constexpr size_t kScalarStride = 64;  // a cache line each
constexpr size_t kFirstScalar = 2;    // after "round" and "steps"
static_assert(BufferTable::kSteps * sizeof(double) == kScalarStride);

}  // namespace

BufferTable::BufferTable(const Plan& plan)
    : layout_(plan.layout()),
      scalars_(static_cast<size_t>(plan.flat_names().scalars)),
      numbers_(plan.flat_names().numbers),
      measured_(plan.flat_names().measured),
      declared_(plan.flat_names().declared) {
  const FlatNames& flats = plan.flat_names();
  const auto add = [&](std::string name, size_t bytes) {
    names_.push_back(std::move(name));
    bytes_.push_back(bytes);
  };
  const size_t trained = layout_->trained_bytes();
  add("params", layout_->arena_bytes());
  add("grads", trained);
  add("base_params", layout_->arena_bytes());
  add("scalars", (kFirstScalar + scalars_ + numbers_.size() + measured_.size() + declared_.size()) * kScalarStride);
  for (int i = 0; i < flats.slots; ++i) add(fmt::format("slots/{}", i), trained);
  for (const std::string& name : flats.update) add(fmt::format("update/{}", name), trained);
  for (const StateVector& state : flats.state) add(fmt::format("{}{}", kStatePrefix, state.name), trained);
  if (flats.other_grads) add("other_grads", trained);
  first_broadcast_ = size();
  for (const std::string& name : flats.broadcast) add(fmt::format("{}{}", kBroadcastPrefix, name), trained);
  first_base_ = size();
  // No flat vector has such a name.
  for (const VariableSpec& variable : layout_->base_variables())
    add(fmt::format("base/{}", variable.name), TensorBytes(variable.spec));
}

size_t BufferTable::number(size_t i) const { return (kFirstScalar + scalars_ + i) * kScalarStride / sizeof(double); }

int BufferTable::index(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  RIVULET_CHECK(found != names_.end(), "the plan has no flat vector '{}'", name);
  return static_cast<int>(found - names_.begin());
}

// The flat variables of a plan and the variables of its model are two names for the same bytes: "params" is the
// whole trainable segment, and the model's weights are slices of it. So small graphs over vectors serve every
// model.
std::pair<int, size_t> BufferTable::PlaceOf(std::string_view flat) const {
  const size_t shared = layout_->segment_offset(Segment::kShared);
  if (flat == "shared") return {kParams, shared};
  if (flat == "base_shared") return {kBaseParams, shared};
  if (flat == "round") return {kScalars, kRound * sizeof(double)};
  if (flat == "steps") return {kScalars, kSteps * sizeof(double)};
  constexpr std::string_view kNumbered = "scalars/";
  if (flat.starts_with(kNumbered)) {
    size_t number = 0;
    std::from_chars(flat.data() + kNumbered.size(), flat.data() + flat.size(), number);
    return {kScalars, (number + kFirstScalar) * kScalarStride};
  }
  const auto place = [](const std::vector<std::string>& names, std::string_view name) {
    return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
  };
  if (flat.starts_with(kNumbersPrefix)) {
    return {kScalars, number(place(numbers_, flat.substr(kNumbersPrefix.size()))) * sizeof(double)};
  }
  if (flat.starts_with(kMeasuredPrefix)) {
    return {kScalars, measured(place(measured_, flat.substr(kMeasuredPrefix.size()))) * sizeof(double)};
  }
  if (flat.starts_with(kDeclaredPrefix)) {
    return {kScalars, declared(place(declared_, flat.substr(kDeclaredPrefix.size()))) * sizeof(double)};
  }
  return {index(flat), layout_->segment_offset(Segment::kTrainable)};
}

}  // namespace rivulet
