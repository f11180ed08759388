// Invitation of a process that trains some of a simulation's clients: the simulation's scenario, and a fingerprint that
// proves both have the same data. It goes to connecting workers (beside the coordinator's own blobs) and to ranks. As
// bytes: three lines, "RVJOIN1", the run's id and the fingerprint, and then the scenario's TOML.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "federated/scenario/scenario.h"
#include "federated/transport/coordinator_api.h"
#include "simulations/clients/virtual_clients.h"

namespace rivulet {

struct Invitation {
  std::string run_id;
  std::string fingerprint;  // VirtualClients::Fingerprint; "": there is no data, and only other programs train
  std::string scenario;     // Scenario::ToToml

  std::string ToBytes() const;
  // INVALID_ARGUMENT: no invitation.
  static StatusOr<Invitation> FromBytes(std::string_view bytes);
};

// Most bytes of an invitation. A submitted scenario has at most 768 KB; this leaves room for its comments.
inline constexpr int64_t kMaxInvitationBytes = 4'000'000;

// The blob of the invitation at a simulation's server, available to sites alone, like clients' states.
BlobId InvitationBlob();

// The scenario of an invitation for use in this process, without test sets: the simulation evaluates. With a folder
// `data` every path is below that folder (simulations/launchers/paths_within.h); "": paths are unchanged, for an
// invitation of the user's own program. INVALID_ARGUMENT: no scenario, or a path without a file name.
// FAILED_PRECONDITION: a link leads out of the folder.
StatusOr<Scenario> ScenarioOf(const Invitation& invitation, const std::string& data);

// The clients of the simulation, in this process. Files are found as in ScenarioOf; data of [data.synth] are generated
// there. NOT_FOUND: they are missing. FAILED_PRECONDITION: they differ from the simulation's, or it has none. Other
// errors as ScenarioOf's.
StatusOr<std::unique_ptr<VirtualClients>> JoinSimulation(const Invitation& invitation, const std::string& data);

}  // namespace rivulet
