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
  std::string fingerprint;  // VirtualClients::Fingerprint; "": there is no data, and others than this program train
  std::string scenario;     // Scenario::ToToml

  std::string ToBytes() const;
  // INVALID_ARGUMENT: no invitation.
  static StatusOr<Invitation> FromBytes(std::string_view bytes);
};

// Under which the server of a simulation has it, for sites alone, as what clients keep is.
BlobId InvitationBlob();

// The clients of the simulation, in this process. Files lie where the scenario says, or under their names in the folder
// `data` where that is not ""; what [data.synth] describes is generated. NOT_FOUND: they are not here.
// FAILED_PRECONDITION: they are others than the simulation's, or it has none.
StatusOr<std::unique_ptr<VirtualClients>> JoinSimulation(const Invitation& invitation, const std::string& data);

}  // namespace rivulet
