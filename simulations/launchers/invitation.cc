#include "simulations/launchers/invitation.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "federated/settings/setting_tables.h"
#include "setup/data.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

constexpr std::string_view kMagic = "RVJOIN1";

// The files that clients are made from, under their own names in another folder.
std::vector<std::pair<std::string, std::string>> FilesIn(const std::string& folder, const Scenario& scenario) {
  std::vector<std::pair<std::string, std::string>> overrides;
  const auto lies_there = [&](const std::string& key, const std::string& path) {
    if (!path.empty()) overrides.emplace_back(key, folder + "/" + std::filesystem::path(path).filename().string());
  };
  lies_there("data.train", scenario.data.train);
  lies_there("data.test", scenario.data.test);
  const PartitionConfig& partition = scenario.data.partition;
  if (const auto table = FindSettingTable("partitioner", partition.kind); table.ok())
    for (const auto& [name, value] : partition.settings)
      if ((*table)->IsFile(name)) lies_there("data.partition." + name, std::get<std::string>(value));
  return overrides;
}

}  // namespace

std::string Invitation::ToBytes() const { return fmt::format("{}\n{}\n{}\n{}", kMagic, run_id, fingerprint, scenario); }

StatusOr<Invitation> Invitation::FromBytes(std::string_view bytes) {
  const auto line = [&bytes] {
    const std::string_view taken = bytes.substr(0, bytes.find('\n'));
    bytes.remove_prefix(std::min(taken.size() + 1, bytes.size()));
    return std::string(taken);
  };
  const std::string_view whole = bytes;
  if (line() != kMagic) {
    return InvalidArgument(
        "the simulation's invitation does not begin with '{}', so its version differs; install the same version at "
        "both ends",
        kMagic);
  }
  Invitation invitation;
  invitation.run_id = line();
  invitation.fingerprint = line();
  invitation.scenario = bytes;
  if (std::ranges::count(whole, '\n') < 3)
    return InvalidArgument("the simulation's invitation is cut off; start this worker again");
  return invitation;
}

BlobId InvitationBlob() { return StateBlobOf("invitation"); }  // no task has such a name

StatusOr<std::unique_ptr<VirtualClients>> JoinSimulation(const Invitation& invitation, const std::string& data) {
  if (invitation.fingerprint.empty()) {
    return FailedPrecondition(
        "this simulation's clients have no data that a worker could find, as those written in Python; start the "
        "processes that train them");
  }
  const std::string path = fmt::format("the scenario of run {}", invitation.run_id);
  RIVULET_ASSIGN_OR_RETURN(Scenario scenario, Scenario::ParseStored(invitation.scenario, path));
  const bool own_data = TrainsOnOwnData(scenario);
  if (!data.empty()) {
    RIVULET_ASSIGN_OR_RETURN(scenario, Scenario::ParseStored(invitation.scenario, path, FilesIn(data, scenario)));
  }
  scenario.data.test.clear();  // the simulation's own affair, as all that is measured
  scenario.data.tests.clear();
  scenario.data.validation.clear();
  // Another folder, or no test set here, makes generated data nobody's own.
  if (!own_data) scenario.given.erase("data.train");
  RunSetup setup(scenario);
  auto clients = VirtualClients::Create(setup, false);  // whether its attack fits its plan was asked there
  if (absl::IsNotFound(clients.status()) && data.empty()) {
    return NotFound("{}; give --data FOLDER if the files are in another folder than at the simulation",
                    Message(clients.status()));
  }
  RIVULET_RETURN_IF_ERROR(clients.status());
  RIVULET_ASSIGN_OR_RETURN(const std::string fingerprint, (*clients)->Fingerprint());
  if (fingerprint != invitation.fingerprint) {
    return FailedPrecondition(
        "the data in '{}' is not that of the simulation, whose clients would be trained on other examples here; copy "
        "the same files",
        scenario.data.train);
  }
  return clients;
}

}  // namespace rivulet
