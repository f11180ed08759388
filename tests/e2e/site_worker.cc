// Sites of many names in processes of their own, and the coordinator that admits them.
//
//   site_worker serve SCENARIO DB HOST:PORT new|latest KEY=VALUE …     prints "listening HOST:PORT", ends with the run
//   site_worker work HOST:PORT NAME SCENARIO KEY=VALUE …               ends when it is told that the run is over
#include <cstdio>

#include "client/site/site.h"
#include "coordinator/coordinator.h"
#include "coordinator/stored_run.h"
#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "federated/transport/shutdown_barrier.h"
#include "setup/run_setup.h"
#include "simulations/attacks/shared_data.h"

namespace rivulet {
namespace {

StatusOr<Scenario> ScenarioFrom(const std::string& path, std::span<char*> sets) {
  std::vector<std::pair<std::string, std::string>> overrides;
  for (const std::string set : sets) {
    const size_t equals = set.find('=');
    if (equals == std::string::npos) return InvalidArgument("'{}' is no KEY=VALUE", set);
    overrides.emplace_back(set.substr(0, equals), set.substr(equals + 1));
  }
  return Scenario::Load(path, overrides);
}

// As a simulation has it: all clients are members from the start.
Status ServeSites(Scenario scenario, const std::string& db, const std::string& listen, const std::string& resume) {
  CoordinatorOptions options{.db_path = db};
  std::shared_ptr<const Plan> kept_plan;
  if (resume != "new") {
    options.resume = resume;
    RIVULET_ASSIGN_OR_RETURN(scenario, ScenarioOfStoredRun(db, resume, scenario));
    RIVULET_ASSIGN_OR_RETURN(kept_plan, PlanOfStoredRun(db, resume));
  }
  RunSetup setup(scenario, {.evaluation_threads = 1, .plan = std::move(kept_plan)});
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<const Shares> shares, setup.shares());
  RIVULET_ASSIGN_OR_RETURN(options.plan, setup.plan());
  scenario.data.partition.clients = shares->size();
  options.scenario = std::move(scenario);
  options.population = shares->population();
  RIVULET_ASSIGN_OR_RETURN(const NetworkAddress address, ParseAddress(listen));
  RIVULET_ASSIGN_OR_RETURN(const auto coordinator, Coordinator::Create(std::move(options)));
  ShutdownBarrier attendance(*coordinator);
  RIVULET_ASSIGN_OR_RETURN(const auto server, GrpcServer::Start(attendance, {.listen = address,
                                                                             .credentials = InsecureCredentials(false),
                                                                             .admit_sites = true}));
  fmt::print("listening {}\n", server->address().ToString());
  std::fflush(stdout);
  const Status status = coordinator->Wait();
  (void)attendance.WaitUntilAllKnow(std::chrono::seconds(10));
  server->Stop(std::chrono::seconds(1));
  return status;
}

Status WorkAsSite(const std::string& address, const std::string& name, Scenario scenario) {
  RunSetup setup(std::move(scenario));
  RIVULET_ASSIGN_OR_RETURN(const auto dataset, setup.training_data());
  RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
  const SharedData data(dataset, shares);
  ArtifactCache artifacts("", setup.row_budget());
  StopSignal stop;
  RIVULET_ASSIGN_OR_RETURN(const NetworkAddress coordinator, ParseAddress(address));
  RIVULET_ASSIGN_OR_RETURN(const auto api,
                           GrpcClient::Create({.coordinator = coordinator, .credentials = InsecureCredentials(false)}));
  SiteOptions options;
  options.name = name;
  options.version = "test";
  options.most_tasks = 8;
  options.calls.backoff = {.initial_ms = 20, .max_ms = 200};
  return Site(*api, data, artifacts, stop, std::move(options)).Run();
}

Status SiteWorker(std::span<char*> arguments) {
  const std::string mode = arguments.empty() ? "" : arguments[0];
  if (mode == "serve" && arguments.size() >= 5) {
    RIVULET_ASSIGN_OR_RETURN(Scenario scenario, ScenarioFrom(arguments[1], arguments.subspan(5)));
    return ServeSites(std::move(scenario), arguments[2], arguments[3], arguments[4]);
  }
  if (mode == "work" && arguments.size() >= 4) {
    RIVULET_ASSIGN_OR_RETURN(Scenario scenario, ScenarioFrom(arguments[3], arguments.subspan(4)));
    return WorkAsSite(arguments[1], arguments[2], std::move(scenario));
  }
  return InvalidArgument("see the comment at the top of site_worker.cc");
}

}  // namespace
}  // namespace rivulet

int main(int argc, char** argv) {
  const rivulet::Status status = rivulet::SiteWorker(std::span(argv, static_cast<size_t>(argc)).subspan(1));
  if (status.ok()) return 0;
  fmt::print(stderr, "site_worker: {}\n", rivulet::Message(status));
  return 1;
}
