// rivulet worker: trains clients of a remote simulation, for as long as that runs.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/run/proxy.h"
#include "cli/run/security.h"
#include "cli/terminal.h"
#include "client/calls/coordinator_calls.h"
#include "engine/base/available_cores.h"
#include "engine/base/available_memory.h"
#include "engine/base/display_name.h"
#include "engine/base/file_system.h"
#include "engine/base/mutex.h"
#include "federated/transport/grpc_client.h"
#include "setup/run_setup.h"
#include "simulations/clients/planned_tasks.h"
#include "simulations/clients/site_threads.h"
#include "simulations/launchers/invitation.h"
#include "simulations/launchers/patience.h"
#include "simulations/launchers/worker_gate.h"

namespace rivulet {
namespace {

struct WorkerOptions {
  std::string simulation;
  std::optional<int64_t> workers, memory, patience;
  std::string data;
  bool zstd = false;
  SecurityOptions security;
};

constexpr int64_t kPatienceSeconds = 600;

// A unique name among all workers, on any machine.
std::string OwnName() {
  char host[256] = "";
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return fmt::format("{} {}", host[0] == '\0' ? "worker" : host, getpid());
}

// The folder for generated data of the scenario, unless --data gives it. Simulations with other data have other
// folders; the name is this program's, whatever the invitation contains.
std::string OwnDataFolder(const Invitation& invitation) {
  constexpr size_t kDigits = 16;
  return JoinPath("rivulet-worker", Sha256Of(invitation.fingerprint).Hex().substr(0, kDigits));
}

StatusOr<Security> SecurityOfWorker(const WorkerOptions& options, const NetworkAddress& address) {
  if (address.IsLoopback() && options.security.tls.empty() && options.security.insecure == 0) {
    return Security{InsecureCredentials(false), ""};
  }
  return SecurityOf(options.security, Role::kClient, address, "",
                    [](const std::string& sentence) { PrintNote(OneLine(sentence), Note::kImportant); });
}

class Worker {
 public:
  Worker(const WorkerOptions& options, std::unique_ptr<GrpcClient> connection, std::string certified)
      : options_(options),
        certified_(!certified.empty()),
        name_(certified_ ? std::move(certified) : OwnName()),
        connection_(std::move(connection)),
        patience_(std::chrono::seconds(options.patience.value_or(kPatienceSeconds))),
        api_(*connection_, patience_) {
    const auto available = static_cast<int64_t>(std::min<size_t>(AvailableMemory(), INT64_MAX));
    calls_.max_download_bytes = options_.memory ? *options_.memory * 1'000'000 : available;
    if (options_.memory) calls_.max_plan_bytes = calls_.max_download_bytes;
    calls_.on_retry = [this](const Status& status, int64_t) { Retries(status); };
  }

  // Trains until the run is over, or cannot be continued.
  Status Run() {
    RIVULET_ASSIGN_OR_RETURN(const Invitation invitation, Join());
    data_ = options_.data.empty() ? OwnDataFolder(invitation) : options_.data;
    RIVULET_ASSIGN_OR_RETURN(const auto clients, JoinSimulation(invitation, data_));
    const int threads = Threads(invitation, *clients);
    SiteThreads sites(api_, *clients,
                      {.threads = threads,
                       .site = {.name = name_, .run_id = invitation.run_id, .version = kWorkerVersion, .calls = calls_},
                       .one_name = certified_,
                       .on_error = [this](const Status& status) { End(status); }});
    {
      MutexLock lock(mutex_);
      if (!ended_) sites_ = &sites;
    }
    if (stop_.stopped()) return Error();
    PrintNote(fmt::format("training for run {} of {} with {} thread{}", DisplayText(invitation.run_id, 100),
                          options_.simulation, threads, threads == 1 ? "" : "s"),
              Note::kProgress);
    sites.Start();
    sites.Join();
    MutexLock lock(mutex_);
    sites_ = nullptr;
    return error_;
  }

  // From another thread; Run returns the first `why`.
  void End(const Status& why) {
    MutexLock lock(mutex_);
    if (!std::exchange(ended_, true)) error_ = why;
    stop_.Stop();
    if (sites_ != nullptr) sites_->Stop();
    connection_->Cancel();
  }

 private:
  // Planned with the plan that the scenario gives here; the simulation's own, sent with the first task, is the same
  // unless it resumes an older program's run.
  int Threads(const Invitation& invitation, VirtualClients& clients) const {
    const int wanted = static_cast<int>(options_.workers.value_or(AvailableCores()));
    const StatusOr<Scenario> scenario = ScenarioOf(invitation, data_);
    if (wanted == 1 || !scenario.ok()) return wanted;
    const StatusOr<std::shared_ptr<const Plan>> plan = RunSetup(*scenario).plan();
    if (!plan.ok()) return wanted;
    return ThreadsToTrain(PlannedTasks::Create(clients, *plan), wanted, options_.memory.value_or(0) * 1'000'000,
                          [](const std::string& sentence) { PrintNote(sentence, Note::kImportant); });
  }

  // Waits for a simulation that has not begun.
  StatusOr<Invitation> Join() {
    const StatusOr<std::string> bytes =
        CoordinatorCalls(api_, stop_, calls_).Fetch({.name = name_}, InvitationBlob(), kMaxInvitationBytes);
    if (stop_.stopped()) return Error();
    if (absl::IsNotFound(bytes.status()) || absl::IsPermissionDenied(bytes.status())) {
      return FailedPrecondition(
          "{} is no simulation that lets workers in ({}); start it with 'rivulet simulate --workers-at'",
          options_.simulation, Message(bytes.status()));
    }
    RIVULET_RETURN_IF_ERROR(bytes.status());
    return Invitation::FromBytes(*bytes);
  }

  void Retries(const Status& status) {
    if (patience_.run_is_over()) return End(absl::OkStatus());
    if (patience_.FirstMiss()) {
      PrintNote(OneLine(fmt::format("waiting for {}: {}", options_.simulation, Message(status))), Note::kProgress);
    }
    if (!patience_.exhausted()) return;
    End(Unavailable("{} was not reached for {} s; raise --patience to wait longer for a simulation",
                    options_.simulation, patience_.seconds()));
  }

  Status Error() {
    MutexLock lock(mutex_);
    return error_;
  }

  const WorkerOptions& options_;
  const bool certified_;
  const std::string name_;
  const std::unique_ptr<GrpcClient> connection_;
  Patience patience_;
  HeardApi api_;
  std::string data_;  // the folder of the scenario's files on this machine
  CallOptions calls_;
  StopSignal stop_;
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  Status error_ GUARDED_BY(mutex_);
  SiteThreads* sites_ GUARDED_BY(mutex_) = nullptr;  // while they train
};

Status Work(const WorkerOptions& options) {
  const StatusOr<NetworkAddress> address = ParseAddress(options.simulation);
  if (!address.ok()) return AsUsageError(Annotate(address.status(), "--simulation"));
  RIVULET_ASSIGN_OR_RETURN(Security security, SecurityOfWorker(options, *address));
  StatusOr<std::string> proxy = ProxyFor(*address);
  if (!proxy.ok()) return AsUsageError(proxy.status());
  StatusOr<std::unique_ptr<GrpcClient>> connection = GrpcClient::Create(
      {.coordinator = *address, .credentials = security.credentials, .proxy = *std::move(proxy), .zstd = options.zstd});
  if (!connection.ok()) return AsUsageError(Annotate(connection.status(), "--simulation"));
  Worker worker(options, *std::move(connection), security.name);
  Interrupt interrupt;
  interrupt.Call([&] { worker.End(Cancelled("the worker was stopped; other workers train its tasks")); });
  const Status status = worker.Run();
  interrupt.Forget();
  return interrupt.asked() && absl::IsCancelled(status) ? StoppedAsAsked(status) : status;
}

const RegisterCommand kWorker(12, [] {
  auto options = std::make_shared<WorkerOptions>();
  Command command{.name = "worker",
                  .summary = "Train clients of a simulation on another machine.",
                  .example = "rivulet worker --simulation 127.0.0.1:7000 --workers 4"};
  command.Required("--simulation", "HOST:PORT", &options->simulation,
                   "a simulation's address, as in its --workers-at; it may start later");
  command
      .Option("--workers", "N", &options->workers, "threads that train [one per core that this process may use]",
              {1, 1024})
      .Option(
          "--memory", "MEGABYTES", &options->memory,
          "memory for concurrent tasks; fewer threads train if the planned memory exceeds it [this process's limit]",
          {1, 1'000'000'000})
      .Option("--data", "DIR", &options->data,
              "folder with the scenario's files; no others are opened, and generated data are written there "
              "[rivulet-worker/DIGEST]")
      .Option("--patience", "SECONDS", &options->patience,
              "seconds to retry a simulation that cannot be reached; 0: for ever [600]", {0, INT64_MAX / 1'000'000});
  command.Flag("--zstd", &options->zstd, "compress models and results on the connection");
  AddSecurityOptions(command, &options->security);
  command.run = [options] { return Work(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
