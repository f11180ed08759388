// Partitioners by name.
#include <map>
#include <utility>

#include "engine/base/join.h"
#include "engine/base/nearest.h"
#include "federated/settings/registered_piece.h"
#include "setup/partitioners/partitioner.h"

namespace rivulet {
namespace {

constexpr char kPartitioner[] = "partitioner";

// Made at first use and never destroyed, because registrations in other files run before main in an unknown order.
std::map<std::string, Partitioner, std::less<>>& Partitioners() {
  static auto* const partitioners = new std::map<std::string, Partitioner, std::less<>>;
  return *partitioners;
}

}  // namespace

PartitionerRegistration::PartitionerRegistration(Partitioner partitioner) {
  RegisterPiece(kPartitioner, partitioner.name, [partitioner] {
    SettingTableRegistration({.kind = kPartitioner,
                              .name = partitioner.name,
                              .settings = partitioner.settings,
                              .doc = partitioner.doc,
                              .files = partitioner.files,
                              .chooses = partitioner.chooses,
                              .traits = partitioner.traits});
    Partitioners().emplace(partitioner.name, partitioner);
  });
}

StatusOr<const Partitioner*> FindPartitioner(const std::string& name) {
  const auto found = Partitioners().find(name);
  if (found != Partitioners().end()) return &found->second;
  const std::vector<std::string> names = SettingTableNames(kPartitioner);
  return InvalidArgument("data.partition.kind is '{}'; it must be one of {}.{}", name, Join(names, ", "),
                         DidYouMean(name, names));
}

}  // namespace rivulet
