#include <algorithm>

#include "federated/plan/flat_scope.h"
#include "federated/plan/plan_reader.h"

namespace rivulet {
namespace {

constexpr int kMaxSlots = 16, kMaxScalars = 64, kMaxUpdateVectors = 16;
constexpr int kMaxStateVectors = 16, kMaxBroadcasts = 16, kMaxNumbers = 64;
constexpr int kMaxMeasuredNames = 16, kMaxDeclaredNames = 16;

}  // namespace

StatusOr<TensorSpec> PlanReader::Flat(std::string_view name) const {
  return FlatSpec(name, *plan_->layout_, plan_->flat_names_);
}

Status PlanReader::ReadFlats(const proto::FlatNamesDef& message) {
  if (plan_->external() && message.ByteSizeLong() > 0) {
    return InvalidArgument("the plan has flat variables, and no graph that would read or write them");
  }
  FlatNames& names = plan_->flat_names_;
  names.slots = message.slots();
  if (message.slots() < 0 || message.slots() > kMaxSlots) {
    return InvalidArgument("the plan asks for {} slots; a client has 0 to {}", message.slots(), kMaxSlots);
  }
  names.scalars = message.scalars();
  if (message.scalars() < 0 || message.scalars() > kMaxScalars) {
    return InvalidArgument("the plan asks for {} scalars; a client has 0 to {}", message.scalars(), kMaxScalars);
  }
  if (message.update_size() > kMaxUpdateVectors) {
    return InvalidArgument("the plan names {} vectors to send; a client has up to {}", message.update_size(),
                           kMaxUpdateVectors);
  }
  for (const std::string& name : message.update()) {
    RIVULET_RETURN_IF_ERROR(CheckName("name of a vector to send", name));
    if (std::ranges::find(names.update, name) != names.update.end()) {
      return InvalidArgument("the plan names the vector to send '{}' twice", name);
    }
    names.update.push_back(name);
  }
  RIVULET_RETURN_IF_ERROR(ReadState(message));
  RIVULET_RETURN_IF_ERROR(ReadBroadcasts(message));
  RIVULET_RETURN_IF_ERROR(ReadNumbers(message));
  return CheckVariableNames();
}

Status PlanReader::ReadState(const proto::FlatNamesDef& message) {
  FlatNames& names = plan_->flat_names_;
  if (message.state_size() > kMaxStateVectors) {
    return InvalidArgument("the plan has clients keep {} vectors; a client keeps up to {}", message.state_size(),
                           kMaxStateVectors);
  }
  for (const std::string& name : message.state()) {
    RIVULET_RETURN_IF_ERROR(CheckName("name of a vector to keep", name));
    const auto same = [&](const StateVector& state) { return state.name == name; };
    if (name.find('/') != name.npos || std::ranges::any_of(names.state, same)) {
      return InvalidArgument("the plan names the vector to keep '{}' twice, or with a '/'", name);
    }
    names.state.push_back(
        {name, std::ranges::find(message.state_from_base(), name) != message.state_from_base().end()});
  }
  for (const std::string& name : message.state_from_base()) {
    if (Flat(fmt::format("{}{}", kStatePrefix, name)).ok()) continue;
    return InvalidArgument("the plan gives a start of '{}', which no client keeps", name);
  }
  return absl::OkStatus();
}

Status PlanReader::ReadBroadcasts(const proto::FlatNamesDef& message) {
  FlatNames& names = plan_->flat_names_;
  if (message.broadcast_size() > kMaxBroadcasts) {
    return InvalidArgument("the plan has clients read {} vectors beside the model; a client reads up to {}",
                           message.broadcast_size(), kMaxBroadcasts);
  }
  for (const std::string& name : message.broadcast()) {
    RIVULET_RETURN_IF_ERROR(CheckName("name of a vector to read", name));
    if (name.find('/') != name.npos || std::ranges::find(names.broadcast, name) != names.broadcast.end()) {
      return InvalidArgument("the plan names the vector to read '{}' twice, or with a '/'", name);
    }
    names.broadcast.push_back(name);
  }
  return absl::OkStatus();
}

Status PlanReader::ReadNumbers(const proto::FlatNamesDef& message) {
  FlatNames& names = plan_->flat_names_;
  if (message.numbers_size() > kMaxNumbers) {
    return InvalidArgument("the plan has tasks with {} numbers; a task has up to {}", message.numbers_size(),
                           kMaxNumbers);
  }
  for (const std::string& name : message.numbers()) {
    RIVULET_RETURN_IF_ERROR(CheckName("name of a number", name));
    if (name.find('/') != name.npos || std::ranges::find(names.numbers, name) != names.numbers.end()) {
      return InvalidArgument("the plan names the number '{}' twice, or with a '/'", name);
    }
    names.numbers.push_back(name);
  }
  RIVULET_RETURN_IF_ERROR(ReadNames("number that graphs read", message.measured(), kMaxMeasuredNames, names.measured));
  RIVULET_RETURN_IF_ERROR(
      ReadNames("number that graphs declare", message.declared(), kMaxDeclaredNames, names.declared));
  return absl::OkStatus();
}

// Each handle must name a variable of the model or a flat variable.
Status PlanReader::CheckVariableNames() const {
  const FlatNames& names = plan_->flat_names_;
  const auto of_state = [&](std::string_view variable) {
    return std::ranges::any_of(names.state,
                               [&](const StateVector& state) {
                                 return variable.starts_with(fmt::format("{}{}/", kStatePrefix, state.name));
                               }) ||
           std::ranges::any_of(names.broadcast, [&](const std::string& name) {
             return variable.starts_with(fmt::format("{}{}/", kBroadcastPrefix, name));
           });
  };
  for (const Slice& slice : plan_->layout_->slices()) {
    if (slice.name.starts_with("grads/") || slice.name.starts_with(kSlotPrefix) ||
        slice.name.starts_with("other_grads/") || slice.name.starts_with("base_params/") || of_state(slice.name) ||
        Flat(slice.name).ok()) {
      return InvalidArgument("the model has a variable '{}', which is the name of a flat variable; rename it",
                             slice.name);
    }
  }
  return absl::OkStatus();
}

Status PlanReader::ReadNames(std::string_view what, const google::protobuf::RepeatedPtrField<std::string>& said,
                             int most, std::vector<std::string>& names) {
  if (said.size() > most) {
    return InvalidArgument("the plan has {} names of a {}; at most {} are allowed", said.size(), what, most);
  }
  for (const std::string& name : said) {
    RIVULET_RETURN_IF_ERROR(CheckName(fmt::format("name of a {}", what), name));
    if (std::ranges::find(names, name) != names.end()) {
      return InvalidArgument("the plan names the {} '{}' twice", what, name);
    }
    names.push_back(name);
  }
  return absl::OkStatus();
}

}  // namespace rivulet
