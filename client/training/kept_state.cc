#include "client/training/kept_state.h"

#include <cstring>

#include "federated/plan/plan.h"

namespace rivulet {
namespace {

constexpr char kLocalName[] = "params/local";  // a name that no plan can give

}  // namespace

std::vector<KeptPlace> KeptPlacesOf(const Plan& plan, const BufferTable& table) {
  std::vector<KeptPlace> places;
  for (const StateVector& state : plan.flat_names().state) {
    const int buffer = table.index(fmt::format("{}{}", kStatePrefix, state.name));
    places.push_back({state.name, buffer, 0, table.bytes(buffer)});
  }
  const ModelLayout& layout = *plan.layout();
  if (layout.elements(Segment::kLocal) > 0) {
    places.push_back({kLocalName, BufferTable::kParams, layout.segment_offset(Segment::kLocal),
                      layout.segment_bytes(Segment::kLocal)});
  }
  return places;
}

Status BeginState(const Plan& plan, const Task& task, const Model& base, std::string_view state,
                  std::span<const NamedState> kept, std::span<const NamedState> beside) {
  if (!state.empty() && kept.size() + beside.size() > 0) {
    std::vector<NamedState> all(kept.begin(), kept.end());
    all.insert(all.end(), beside.begin(), beside.end());
    return ReadState(state, all);
  }
  const std::vector<StateVector>& specs = plan.flat_names().state;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::span<std::byte> to = std::as_writable_bytes(kept[i].values);
    if (specs[i].from_base) {
      std::memcpy(to.data(), base.arena().data() + plan.layout()->segment_offset(Segment::kTrainable), to.size());
    } else {
      std::memset(to.data(), 0, to.size());
    }
  }
  if (kept.size() == specs.size()) return absl::OkStatus();
  // Drawn with the client's own key, so that no message is needed and no two clients begin alike.
  RIVULET_ASSIGN_OR_RETURN(const auto first, InitialModel(plan, task.stream_key));
  const std::span<float> local = kept.back().values;
  std::memcpy(local.data(), first->arena().data() + plan.layout()->segment_offset(Segment::kLocal), local.size_bytes());
  return absl::OkStatus();
}

}  // namespace rivulet
