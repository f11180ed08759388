#include "cli/run/worker_server.h"

#include <chrono>
#include <utility>

namespace rivulet {
namespace {

constexpr std::chrono::seconds kLearnTheEnd{10};

StatusOr<NetworkAddress> AddressOf(const WorkersAt& workers) {
  StatusOr<NetworkAddress> address = ParseAddress(workers.address);
  return address.ok() ? address : AsUsageError(Annotate(address.status(), "--workers-at"));
}

}  // namespace

// A loopback port needs no proof of a caller's identity; given options apply all the same.
StatusOr<Security> SecurityOfWorkers(const WorkersAt& workers, const std::string& db,
                                     std::function<void(const std::string&)> tell) {
  RIVULET_ASSIGN_OR_RETURN(const NetworkAddress address, AddressOf(workers));
  if (workers.security.tls.empty() && workers.security.insecure == 0 && address.IsLoopback()) {
    return Security{InsecureCredentials(false), ""};
  }
  return SecurityOf(workers.security, Role::kCoordinator, address, db, std::move(tell));
}

StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(Simulation& simulation, const Scenario& scenario,
                                                            const WorkersAt& workers, const Security& security,
                                                            std::function<void(const std::string&)> tell) {
  RIVULET_ASSIGN_OR_RETURN(const NetworkAddress address, AddressOf(workers));
  RIVULET_ASSIGN_OR_RETURN(const Invitation invitation, simulation.invitation());
  std::unique_ptr<WorkerServer> server(new WorkerServer(simulation.coordinator()));
  server->gate_ = std::make_unique<WorkerGate>(
      simulation.coordinator(), server->attendance_,
      WorkerGateOptions{.invitation = invitation.ToBytes(),
                        .lease = std::chrono::milliseconds(
                            std::max<int64_t>(static_cast<int64_t>(scenario.server.lease_seconds * 1000), 1)),
                        .attack = scenario.attack.name,
                        .tell = std::move(tell)});
  RIVULET_ASSIGN_OR_RETURN(
      server->server_,
      GrpcServer::Start(*server->gate_, {.listen = address, .credentials = security.credentials, .admit_sites = true}));
  return server;
}

WorkerServer::~WorkerServer() {
  if (server_ != nullptr) server_->Stop(std::chrono::seconds(1));
}

void WorkerServer::SayFarewell() { (void)attendance_.WaitUntilAllKnow(kLearnTheEnd); }

}  // namespace rivulet
