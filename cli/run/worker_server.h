// Server for processes that train a simulation's clients: `rivulet worker`, and those of Python's rivulet.simulate.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "cli/run/security.h"
#include "federated/transport/grpc_server.h"
#include "federated/transport/shutdown_barrier.h"
#include "simulations/launchers/worker_gate.h"
#include "simulations/simulator.h"

namespace rivulet {

struct WorkersAt {
  std::string address;       // "HOST:PORT"; "": no worker is admitted
  SecurityOptions security;  // optional on this machine
};

// Security of the server for workers. Usage errors: no address, or as SecurityOf. `tell` as there; the revocation list
// is stored beside the history `db`.
StatusOr<Security> SecurityOfWorkers(const WorkersAt& workers, const std::string& db,
                                     std::function<void(const std::string& sentence)> tell);

class WorkerServer {
 public:
  // For a simulation that has not begun, with other training processes; it must outlive this. `security` is that of
  // `workers`. `tell` receives messages for people, on any thread.
  static StatusOr<std::unique_ptr<WorkerServer>> Start(Simulation& simulation, const Scenario& scenario,
                                                       const WorkersAt& workers, const Security& security,
                                                       std::function<void(const std::string& sentence)> tell);
  ~WorkerServer();
  NetworkAddress address() const { return server_->address(); }
  // Call it once the run is over: waits until the workers know it, or had time to.
  void SayFarewell();

 private:
  explicit WorkerServer(Coordinator& coordinator) : attendance_(coordinator) {}

  ShutdownBarrier attendance_;
  std::unique_ptr<WorkerGate> gate_;
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace rivulet
