// Feature shifts by name, and the parts that several share.
#include <map>
#include <utility>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "federated/random/streams.h"
#include "federated/settings/registered_piece.h"
#include "setup/feature_shifts/shift.h"

namespace rivulet {
namespace {

constexpr char kFeatureShift[] = "feature shift";

// Made at first use and never destroyed, because registrations in other files run before main in an unknown order.
std::map<std::string, FeatureShiftKind, std::less<>>& FeatureShifts() {
  static auto* const kinds = new std::map<std::string, FeatureShiftKind, std::less<>>;
  return *kinds;
}

}  // namespace

FeatureShiftRegistration::FeatureShiftRegistration(FeatureShiftKind kind) {
  RegisterPiece(kFeatureShift, kind.name, [kind] {
    SettingTableRegistration({.kind = kFeatureShift, .name = kind.name, .settings = kind.settings, .doc = kind.doc});
    FeatureShifts().emplace(kind.name, kind);
  });
}

StatusOr<const FeatureShiftKind*> FindFeatureShift(const std::string& name) {
  const auto found = FeatureShifts().find(name);
  if (found != FeatureShifts().end()) return &found->second;
  const std::vector<std::string> names = SettingTableNames(kFeatureShift);
  return InvalidArgument("there is no data.shift.kind '{}'; kinds are {}.{}", name, Join(names, ", "),
                         DidYouMean(name, names));
}

Setting ShiftAmount(double usual, double most, std::string doc, std::string example) {
  return WithExample(Float("amount", usual, std::move(doc)).Between(0, most), std::move(example));
}

// Partitions draw in round 0.
Draws ShiftDraws(uint64_t seed, int64_t which) {
  return Draws(StreamFor(seed, "", Purpose::kPartition, 1), static_cast<uint32_t>(which));
}

Status CheckImage(const ShiftRequest& request, std::string_view kind, std::string_view does) {
  const Shape& shape = request.input.spec.shape;  // batch first
  if (shape.rank() == 4) return absl::OkStatus();
  return InvalidArgument("data.shift.kind = \"{}\" {}, and '{}' is {}", kind, does, request.feature, shape.ToString());
}

}  // namespace rivulet
