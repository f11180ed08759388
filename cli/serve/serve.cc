// rivulet serve: versions of runs for clients of model servers.
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/run/security.h"
#include "cli/serve/abort_rows.h"
#include "cli/serve/follow.h"
#include "cli/terminal.h"
#include "coordinator/history/history.h"
#include "coordinator/history/pointers.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "inspect/model_source.h"
#include "inspect/run_model.h"
#include "serving/grpc_front.h"
#include "serving/http_front.h"
#include "serving/model_server.h"

namespace rivulet {
namespace {

struct ServeArguments {
  std::vector<std::string> dbs, models, outputs, follow, least, abort_if;
  std::string max_drop;
  std::string grpc = "127.0.0.1:8001";
  std::string http;
  SecurityOptions security;
  std::optional<int64_t> max_batch, timeout_us, max_queue, threads, fixed, cluster;
  std::string sizes;
};

StatusOr<std::vector<int64_t>> ReadSizes(const std::string& text) {
  std::vector<int64_t> sizes;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int64_t size = 0;
    const auto [after, error] = std::from_chars(text.data() + begin, text.data() + end, size);
    if (error != std::errc() || after != text.data() + end)
      return UsageError("--batch-sizes are numbers with commas between, not '{}'", Shortened(text));
    sizes.push_back(size);
    begin = end + 1;
  }
  return sizes;
}

StatusOr<BatchOptions> ReadBatch(const ServeArguments& arguments) {
  BatchOptions batch;
  RIVULET_ASSIGN_OR_RETURN(batch.sizes, ReadSizes(arguments.sizes));
  batch.fixed = arguments.fixed.value_or(0);
  batch.max_batch = arguments.max_batch.value_or(arguments.fixed       ? *arguments.fixed
                                                 : batch.sizes.empty() ? batch.max_batch
                                                                       : batch.sizes.back());
  batch.timeout = std::chrono::microseconds(arguments.timeout_us.value_or(batch.timeout.count()));
  batch.max_queue = arguments.max_queue.value_or(batch.max_queue);
  batch.threads = static_cast<int>(arguments.threads.value_or(0));
  RIVULET_RETURN_IF_ERROR(AsUsageError(CheckBatchOptions(batch)));
  return batch;
}

// "NAME=RUN[:ROUND]": that version, regardless of the pointers.
StatusOr<NameToServe> FixedName(const std::string& db, const std::string& name, const std::string& what) {
  RIVULET_ASSIGN_OR_RETURN(const RunModel found, FindRunModel(db, what));
  RIVULET_ASSIGN_OR_RETURN(const auto history, History::Open(db, History::Access::kReadOnly));
  RIVULET_ASSIGN_OR_RETURN(const RunRow run, history->ResolveRun(found.run_id));
  RIVULET_ASSIGN_OR_RETURN(const auto models, history->Models(found.run_id));
  NameToServe served{.name = name, .db = db};
  served.fixed = {
      {1, found.run_id, found.round, "", run.plan_digest}, JoinPath(FolderOf(found.path), "plan"), found.path};
  for (const ModelRow& row : models)
    if (row.round == found.round) served.fixed->version.digest = row.digest;
  return served;
}

// The history with pointers of a name, among the given ones.
StatusOr<NameToServe> FindName(const std::vector<std::string>& dbs, const std::string& name) {
  NameToServe served{.name = name};
  for (const std::string& db : dbs) {
    RIVULET_ASSIGN_OR_RETURN(const auto pointers, Pointers::Open(db, Database::Access::kReadOnly));
    RIVULET_ASSIGN_OR_RETURN(const auto rows, pointers->Rows());
    if (!NamesOf(rows).contains(name)) continue;
    if (!served.db.empty())
      return UsageError("both '{}' and '{}' have pointers of '{}'; serve them in two processes", served.db, db, name);
    served.db = db;
  }
  if (served.db.empty())
    return NotFound("no label of the name '{}' was set in {}; point one to a version with 'rivulet model point {} RUN'",
                    name, Join(dbs, ", "), name);
  return served;
}

StatusOr<double> ReadNumber(std::string_view option, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return UsageError("{}: '{}' is no number", option, Shortened(text));
  return value;
}

// The labels that follow a run; null: there are none.
StatusOr<std::unique_ptr<RunFollower>> ReadFollow(const ServeArguments& arguments, const std::vector<std::string>& dbs,
                                                  const ServedPlanOptions& plan) {
  if (arguments.follow.empty()) {
    if (!arguments.least.empty() || !arguments.max_drop.empty())
      return UsageError("--min and --max-drop apply to new versions of --follow; give --follow too");
    return nullptr;
  }
  if (dbs.size() > 1) return UsageError("--follow names a run of one history; give one --db");
  FollowGates gates;
  for (const std::string& text : arguments.least) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return UsageError("--min is METRIC=VALUE, not '{}'", Shortened(text));
    RIVULET_ASSIGN_OR_RETURN(gates.least[text.substr(0, equals)], ReadNumber("--min", text.substr(equals + 1)));
  }
  if (!arguments.max_drop.empty()) {
    RIVULET_ASSIGN_OR_RETURN(gates.max_drop, ReadNumber("--max-drop", arguments.max_drop));
  }
  std::vector<FollowedRun> runs;
  for (const std::string& text : arguments.follow) {
    StatusOr<FollowedRun> run = FollowOf(dbs.front(), text);
    if (!run.ok()) return AsUsageError(run.status());
    runs.push_back(*std::move(run));
  }
  return std::make_unique<RunFollower>(std::move(runs), std::move(gates), plan, "rivulet serve",
                                       [](const std::string& sentence) { PrintNote(sentence, Note::kImportant); });
}

Status Serve(const ServeArguments& arguments) {
  std::vector<std::string> dbs = arguments.dbs;
  if (dbs.empty()) dbs.push_back("./rivulet.sqlite");
  ModelServerOptions options;
  RIVULET_ASSIGN_OR_RETURN(options.batch, ReadBatch(arguments));
  StatusOr<NetworkAddress> address = ParseAddress(arguments.grpc);
  if (!address.ok()) return AsUsageError(Annotate(address.status(), "--grpc"));
  const auto tell = [](const std::string& sentence) { PrintNote(sentence, Note::kImportant); };
  RIVULET_ASSIGN_OR_RETURN(const Security security,
                           SecurityOf(arguments.security, kModelsRole, *address, dbs.front() + ".serve", tell));
  options.plan = {.outputs = arguments.outputs, .scores = ScoresOf};
  RIVULET_ASSIGN_OR_RETURN(const auto follower, ReadFollow(arguments, dbs, options.plan));
  if (follower != nullptr) RIVULET_RETURN_IF_ERROR(follower->PointAll());
  for (const std::string& model : arguments.models) {
    const size_t equals = model.find('=');
    const std::string name = model.substr(0, equals);
    RIVULET_RETURN_IF_ERROR(AsUsageError(CheckServedName(name)));
    if (equals != std::string::npos && dbs.size() > 1)
      return UsageError("--model {}: a version is named in one history; give one --db", model);
    RIVULET_ASSIGN_OR_RETURN(NameToServe served, equals == std::string::npos
                                                     ? FindName(dbs, name)
                                                     : FixedName(dbs.front(), name, model.substr(equals + 1)));
    options.names.push_back(std::move(served));
  }
  for (const std::string& text : arguments.abort_if) {
    StatusOr<AbortRule> rule = AbortRuleOf(text);
    if (!rule.ok()) return AsUsageError(rule.status());
    options.abort_if.push_back(*std::move(rule));
  }
  std::unique_ptr<AbortRows> abort_rows;
  if (!options.abort_if.empty()) {
    if (std::ranges::all_of(options.names, [](const NameToServe& served) { return served.fixed.has_value(); }))
      return UsageError("--abort-if stops a canary, which a version without labels has not; give --model NAME alone");
    abort_rows = std::make_unique<AbortRows>("rivulet serve", tell);
    options.aborted = [&abort_rows](const AbortedCanary& canary) { abort_rows->Add(canary); };
  }
  options.cluster = arguments.cluster;
  options.tell = [](const std::string& sentence, bool warning) {
    PrintNote(sentence, warning ? Note::kImportant : Note::kProgress);
  };
  RIVULET_ASSIGN_OR_RETURN(const auto server, ModelServer::Start(FileSystem::Default(), std::move(options)));
  RIVULET_ASSIGN_OR_RETURN(const auto grpc, GrpcFront::Start(*server, {*address, security.credentials}));
  std::unique_ptr<HttpServer> http;
  if (!arguments.http.empty()) {
    HttpOptions listen{.address = arguments.http, .token_file = {}, .tls = arguments.security.tls};
    listen.plaintext_beyond_loopback = arguments.security.insecure >= 2;
    listen.lists_beside = dbs.front() + ".serve";
    PrepareHttp(*server, listen);
    RIVULET_ASSIGN_OR_RETURN(http, HttpServer::Create(listen, tell));
    ServeCalls(*server, *http);
  }
  Interrupt interrupt;
  if (http != nullptr) http->Start();
  if (follower != nullptr) follower->Start();
  fmt::print("serving {} over gRPC at {}{}\n", Join(server->Names(), ", "), grpc->address().ToString(),
             http == nullptr ? "" : " and over HTTP at " + http->url());
  std::fflush(stdout);
  while (!interrupt.happened()) {
    pollfd interrupted{interrupt.fd(), POLLIN, 0};
    poll(&interrupted, 1, -1);
  }
  if (http != nullptr) http->Stop();
  grpc->Stop(std::chrono::seconds(5));
  return absl::OkStatus();
}

const RegisterCommand kServe(42, [] {
  auto arguments = std::make_shared<ServeArguments>();
  Command command{.name = "serve",
                  .summary = "Serve versions of runs to clients of Triton, KServe and TensorFlow Serving.",
                  .example =
                      "rivulet serve --model mnist --insecure\n"
                      "  rivulet serve --model mnist=latest:best --insecure"};
  command
      .Repeated("--model", "NAME[=RUN[:ROUND]]", &arguments->models,
                "a name that `rivulet model point` has set, or a version under this name; repeatable")
      .Repeated("--db", "FILE", &arguments->dbs, "a history with pointers; repeatable [./rivulet.sqlite]")
      .Repeated("--follow", "NAME[=LABEL]=RUN[:ROUND]", &arguments->follow,
                "point the label [stable] to the run's newest version whenever there is one, ROUND being 'latest' "
                "[latest] or 'best'; repeatable")
      .Repeated("--min", "METRIC=VALUE", &arguments->least,
                "the least value of a metric, such as test/accuracy=0.97, with which a version is followed; repeatable")
      .Option("--max-drop", "VALUE", &arguments->max_drop,
              "the most by which a followed version may measure worse than the present one [any]")
      .Repeated("--abort-if", "RULE", &arguments->abort_if,
                "take the canary's share away when it is worse than stable: errors=DIFFERENCE of error rates, such as "
                "errors=0.01, or pN=RATIO of latencies, such as p99=2; repeatable")
      .Option("--grpc", "HOST:PORT", &arguments->grpc, "serve gRPC here; port 0 takes any free one [127.0.0.1:8001]")
      .Option("--http", "HOST:PORT", &arguments->http,
              "serve HTTP here too, with /v2, /v1 and /metrics; port 0 takes any free one")
      .Repeated("--output", "TENSOR", &arguments->outputs,
                "an output of the model, or 'probabilities'; repeatable [the scores]")
      .Option("--cluster", "K", &arguments->cluster, kClusterHelp, {.min = 0})
      .Option("--max-batch", "N", &arguments->max_batch, "most examples of one step, and of one request [64]")
      .Option("--batch-sizes", "N,N,…", &arguments->sizes, "batch sizes that steps are padded to [1,2,4,…,max-batch]")
      .Option("--fixed-batch", "N", &arguments->fixed,
              "run every step with N rows, so that answers do not depend on other requests")
      .Option("--batch-timeout-us", "N", &arguments->timeout_us,
              "microseconds for which full batches go before an older one that is not full [1000]", {.min = 0})
      .Option("--max-queue", "N", &arguments->max_queue, "requests that may wait; more are refused [1000]")
      .Option("--threads", "N", &arguments->threads, "threads that run steps [one a core]", {.min = 1, .max = 1024});
  AddSecurityOptions(command, &arguments->security);
  command.run = [arguments] {
    if (arguments->models.empty()) return UsageError("give --model NAME");
    return Serve(*arguments);
  };
  return command;
});

}  // namespace
}  // namespace rivulet
