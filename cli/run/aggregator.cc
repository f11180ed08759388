// rivulet aggregator: a node between a coordinator and clients.
#include "aggregator/aggregator.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/run/client_options.h"
#include "cli/run/event_line.h"
#include "cli/run/log_file.h"
#include "cli/run/options.h"
#include "cli/run/proxy.h"
#include "cli/run/security.h"
#include "cli/terminal.h"
#include "client/calls/coordinator_calls.h"
#include "engine/base/available_memory.h"
#include "engine/base/display_name.h"
#include "engine/base/file_system.h"
#include "federated/transport/allow_list.h"
#include "federated/transport/grpc_client.h"
#include "federated/transport/grpc_server.h"
#include "federated/transport/shutdown_barrier.h"
#include "rpc/transfer_heap.h"

namespace rivulet {
namespace {

// The time for its clients to receive the end of the run.
constexpr std::chrono::seconds kAggregatorFarewell{20};

// The folder below --state for an aggregator's updates and revocation list. The former name, "tier", applies if there
// are files under it.
std::string PlaceIn(const std::string& state) {
  const auto names = FileSystem::Default().List(state);
  const bool earlier = names.ok() && std::ranges::any_of(*names, [](const std::string& name) {
                         return name == "tier" || name.starts_with("tier.revoked-");
                       });
  return JoinPath(state, earlier ? "tier" : "aggregator");
}

struct AggregatorOptions {
  std::string parent, listen;
  SecurityOptions security;
  std::string name;
  std::string clients;
  std::string state = "rivulet-state";
  std::optional<int64_t> memory;
  bool aggregators = false;
  bool zstd = false;
  bool json = false;
  LogOptions log;
};

StatusOr<NetworkAddress> AddressOf(const char* option, const std::string& text) {
  StatusOr<NetworkAddress> address = ParseAddress(text);
  return address.ok() ? address : AsUsageError(Annotate(address.status(), option));
}

Status Aggregate(const AggregatorOptions& options) {
  SetUpTransferHeap();
  RIVULET_ASSIGN_OR_RETURN(const NetworkAddress parent, AddressOf("--parent", options.parent));
  RIVULET_ASSIGN_OR_RETURN(const NetworkAddress listen, AddressOf("--listen", options.listen));
  auto name = std::make_shared<std::string>(options.name);
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<LogFile> log, LogFile::Open(options.log));
  const auto tell = [name, log, json = options.json](const std::string& level, const std::string& sentence) {
    if (log != nullptr) log->Write({level, "aggregator", sentence});
    json ? PrintEvent("event", {{"level", level}, {"source", std::string("aggregator")}, {"message", sentence}})
         : PrintNote(OneLine(sentence), level == "info" ? Note::kProgress : Note::kImportant, *name);
  };
  const auto warn = [tell](const std::string& sentence) { tell("warning", sentence); };
  // The revocation list is the first file there. Without the folder it is not stored, which is a warning and no
  // error.
  if (!options.security.tls.empty()) FileSystem::Default().CreateFolders(options.state).IgnoreError();
  RIVULET_ASSIGN_OR_RETURN(Security security,
                           SecurityOf(options.security, Role::kAggregator, listen, PlaceIn(options.state), warn));
  if (!security.name.empty() && !options.name.empty()) {
    return UsageError("the certificate names this aggregator '{}'; leave out --name", security.name);
  }
  if (security.name.empty() && options.name.empty()) {
    return UsageError("without a certificate this aggregator has no name; give --name ID");
  }
  if (!security.name.empty()) *name = security.name;
  RIVULET_RETURN_IF_ERROR(AsUsageError(CheckDisplayName("--name", *name)));
  // Uploads beyond the staging budget are stored there without names.
  std::error_code missing;
  const std::string spool = std::filesystem::temp_directory_path(missing).string();
  if (missing) return FailedPrecondition("TMPDIR is no folder; large uploads need one");

  RIVULET_RETURN_IF_ERROR(CheckStateFolder(options.state));

  StatusOr<std::string> proxy = ProxyFor(parent);
  if (!proxy.ok()) return AsUsageError(proxy.status());
  StatusOr<std::unique_ptr<GrpcClient>> connection = GrpcClient::Create(
      {.coordinator = parent, .credentials = security.credentials, .proxy = *std::move(proxy), .zstd = options.zstd});
  if (!connection.ok()) return AsUsageError(Annotate(connection.status(), "--parent"));
  Interrupt interrupt;
  CallOptions calls;
  calls.max_download_bytes = static_cast<int64_t>(std::min<size_t>(AvailableMemory(), INT64_MAX));
  if (options.memory) calls.max_plan_bytes = calls.max_download_bytes = *options.memory * 1'000'000;
  Aggregator aggregator(**connection, {.name = *name,
                                       .version = RIVULET_VERSION,
                                       .folder = spool,
                                       .state = PlaceIn(options.state),  // a client's own may be beside it
                                       .calls = std::move(calls),
                                       .on_event = tell});
  ShutdownBarrier attendance(aggregator);
  CoordinatorApi* api = &attendance;
  std::unique_ptr<AllowList> admission;
  if (!options.clients.empty()) {
    RIVULET_ASSIGN_OR_RETURN(admission, AllowList::Open(attendance, FileSystem::Default(), options.clients, warn));
    api = admission.get();
  }
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> server,
                           GrpcServer::Start(*api, {.listen = listen,
                                                    .credentials = security.credentials,
                                                    .admit_aggregators = options.aggregators,
                                                    .api_waits = true}));
  const std::string address = server->address().ToString();
  if (options.json) {
    PrintEvent("listening", {{"address", address}});
  } else {
    fmt::print("listening on {}\n", address);
    std::fflush(stdout);
  }
  interrupt.Call([&] {
    aggregator.Stop();
    (*connection)->Cancel();
  });
  const Status status = aggregator.Run();
  interrupt.Forget();
  if (status.ok()) (void)attendance.WaitUntilAllKnow(kAggregatorFarewell);
  server->Stop(std::chrono::seconds(1));
  if (!status.ok() && interrupt.happened()) {
    const Status told = Cancelled(
        "aggregator '{}' was stopped; after a restart its clients send updates that are not on its disk again", *name);
    return interrupt.asked() ? StoppedAsAsked(told) : told;
  }
  RIVULET_RETURN_IF_ERROR(status);
  const std::optional<PollReply::Over> over = aggregator.over();
  if (over) tell("info", over->sentence.empty() ? "the run is over" : "the run is over: " + over->sentence);
  return over && over->failed ? Aborted("{}", over->sentence) : absl::OkStatus();
}

const RegisterCommand kAggregator(27, [] {
  auto options = std::make_shared<AggregatorOptions>();
  Command command{.name = "aggregator",
                  .summary = "Aggregate the updates of clients, and forward one sum to a coordinator.",
                  .example =
                      "rivulet aggregator --parent fl.example.org:7000 --listen 0.0.0.0:7001 --tls aggregator-north\n"
                      "  rivulet aggregator --parent 127.0.0.1:7000 --listen 127.0.0.1:7001 --insecure --name north"};
  command.Required("--parent", "HOST:PORT", &options->parent,
                   "address of the coordinator or aggregator above; it must run with --aggregators");
  command.Required("--listen", "HOST:PORT", &options->listen, "listening address; port 0 takes any free one");
  AddSecurityOptions(command, &options->security);
  command.Option(
      "--name", "ID", &options->name,
      "with --insecure: this aggregator's name, different from all clients' names; otherwise its certificate has it");
  command.Option("--clients", "FILE", &options->clients,
                 "admit only the clients named in this file, one a line; names may be added during the run");
  command.Flag("--aggregators", &options->aggregators, "admit other aggregators").Formerly("--tiers");
  command.Option(
      "--state", "DIR", &options->state,
      "folder for acknowledged updates until they are durable, in runs with server.checkpoint_reports [rivulet-state]");
  command.Option("--memory", "MEGABYTES", &options->memory,
                 "memory for plans and models of tasks [this process's limit; 64 for a plan]", {1, 1'000'000'000});
  command.Flag("--zstd", &options->zstd,
               "compress models and partial sums on the connection to --parent, if it supports that");
  AddLogOptions(command, &options->log);
  command.Flag("--json", &options->json, "print events as JSON on stdout, one object per line");
  command.run = [options] { return Aggregate(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
