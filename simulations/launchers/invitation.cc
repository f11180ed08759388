#include "simulations/launchers/invitation.h"

#include <algorithm>

#include "engine/base/display_name.h"
#include "setup/data.h"
#include "setup/run_setup.h"
#include "simulations/launchers/paths_within.h"

namespace rivulet {
namespace {

constexpr std::string_view kMagic = "RVJOIN1";

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

BlobId InvitationBlob() { return StateBlobOf("invitation"); }  // no task has this name

StatusOr<Scenario> ScenarioOf(const Invitation& invitation, const std::string& data) {
  const std::string path = fmt::format("the scenario of run {}", DisplayText(invitation.run_id, 100));
  RIVULET_ASSIGN_OR_RETURN(Scenario scenario, Scenario::ParseStored(invitation.scenario, path));
  const bool own_data = TrainsOnOwnData(scenario);
  scenario.data.test.clear();
  scenario.data.tests.clear();
  scenario.data.validation.clear();
  // Another folder, or no test set here, means that generated data are not a user's own.
  if (!own_data) scenario.given.erase("data.train");
  if (!data.empty()) RIVULET_RETURN_IF_ERROR(PutPathsWithin(data, scenario));
  return scenario;
}

StatusOr<std::unique_ptr<VirtualClients>> JoinSimulation(const Invitation& invitation, const std::string& data) {
  if (invitation.fingerprint.empty()) {
    return FailedPrecondition(
        "this simulation's clients have no data that a worker could find, as those written in Python; start the "
        "processes that train them");
  }
  RIVULET_ASSIGN_OR_RETURN(const Scenario scenario, ScenarioOf(invitation, data));
  RunSetup setup(scenario);
  auto clients = VirtualClients::Create(setup, false);  // the simulation has checked its attack against its plan
  if (absl::IsNotFound(clients.status()) && !data.empty()) {
    return NotFound("{}; a worker takes a simulation's files from one folder, which --data names",
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
