// One client of a run; trains on data that stays here.
#include "cli/run/client_command.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "certificates/certificate.h"
#include "certificates/fingerprint.h"
#include "cli/interrupt.h"
#include "cli/run/client_options.h"
#include "cli/run/client_preflight.h"
#include "cli/run/event_line.h"
#include "cli/run/proxy.h"
#include "cli/run/security.h"
#include "cli/run/show_plan.h"
#include "cli/run/watching.h"
#include "cli/terminal.h"
#include "client/agent/agent.h"
#include "client/agent/eligibility.h"
#include "client/agent/privacy_ledger.h"
#include "client/agent/receipt_keeper.h"
#include "client/agent/secure_tasks.h"
#include "client/agent/site_policy.h"
#include "client/training/device/device_trainers.h"
#include "engine/base/clock.h"
#include "engine/base/display_name.h"
#include "engine/base/file_system.h"
#include "engine/data/dataset.h"
#include "federated/states/state_store.h"
#include "federated/transport/grpc_client.h"

namespace rivulet {
namespace {

// The round that a task trains for, or whose model it measures.
int64_t RoundOf(const Task& task) { return task.kind == TaskKind::kTrain ? task.base_version + 1 : task.base_version; }

// Messages while the coordinator cannot be reached: at once, when the reason changes, and then ever more rarely,
// because it may take a week.
class Unreachable {
 public:
  // "": no message this time.
  std::string Line(std::string_view reason, int64_t wait_ms) {
    const TimeMs now = Clock::System().Now();
    if (since_.empty()) since_ = TimeText(Clock::System().UnixMs() / 1000).substr(11, 5);
    if (reason == reason_ && now < silent_until_) return "";
    if (reason != reason_) silence_ms_ = kFirstSilenceMs;
    reason_ = reason;
    silent_until_ = now + silence_ms_;
    silence_ms_ = std::min(2 * silence_ms_, kLongestSilenceMs);
    return fmt::format("{}; since {} UTC, next try in {:.1f} s", reason, since_, static_cast<double>(wait_ms) / 1000);
  }
  void Over() { *this = {}; }

 private:
  static constexpr TimeMs kFirstSilenceMs = 60'000, kLongestSilenceMs = 3'600'000;
  std::string since_, reason_;
  TimeMs silent_until_ = 0, silence_ms_ = kFirstSilenceMs;
};

AgentObserver ObserveInWords(const std::string& name) {
  const auto say = [name](const std::string& sentence, Note note = Note::kProgress) {
    PrintNote(OneLine(sentence), note, name);
  };
  auto last = std::make_shared<std::string>();  // the reason of a wait is logged once, not at every poll
  AgentObserver observer;
  auto lost = std::make_shared<Unreachable>();
  observer.on_wait = [=](const Awaited& awaited, int64_t) {
    lost->Over();
    if (*last != awaited.sentence) say(fmt::format("waiting: {}", awaited.sentence));
    *last = awaited.sentence;
  };
  observer.on_task = [=](const Task& task) {
    lost->Over();
    say(task.kind == TaskKind::kTrain ? fmt::format("round {}: training", task.base_version + 1)
                                      : fmt::format("round {}: measuring its model", task.base_version));
    last->clear();
  };
  observer.on_report = [=](const Task& task, const TaskReport& report) {
    lost->Over();
    const bool good = report.kind == TaskReport::Kind::kAccepted || report.kind == TaskReport::Kind::kDuplicate;
    if (task.kind == TaskKind::kEvaluate) {
      say(good ? fmt::format("round {}: measured on {} examples in {:.2f} s", task.base_version,
                             report.examples.value_or(0), report.train_seconds.value_or(0))
               : fmt::format("round {}: not measured: {}: {}", task.base_version, Name(report.kind), report.reason),
          good ? Note::kProgress : Note::kImportant);
    } else if (good) {
      say(fmt::format("round {}: {}{} examples in {:.2f} s, loss {:.4f}, {} bytes uploaded", task.base_version + 1,
                      report.resent ? "sent the finished update: " : "", report.examples.value_or(0),
                      report.train_seconds.value_or(0), report.train_loss.value_or(0), report.bytes_up));
    } else {
      say(fmt::format("round {}: {}: {}", task.base_version + 1, Name(report.kind), report.reason), Note::kImportant);
    }
  };
  observer.on_retry = [=](const Status& status, int64_t wait_ms) {
    if (const std::string line = lost->Line(Message(status), wait_ms); !line.empty()) say(line, Note::kImportant);
  };
  observer.on_over = [=](const PollReply::Over& over) {
    say(over.sentence.empty() ? "the run is over" : fmt::format("the run is over: {}", over.sentence));
  };
  return observer;
}

AgentObserver ObserveInJson() {
  AgentObserver observer;
  observer.on_wait = [](const Awaited& awaited, int64_t) { PrintEvent("wait", {{"reason", awaited.sentence}}); };
  observer.on_task = [](const Task& task) {
    PrintEvent("task", {{"task_id", task.id}, {"kind", std::string(Name(task.kind))}, {"round", RoundOf(task)}});
  };
  observer.on_report = [](const Task& task, const TaskReport& report) {
    PrintEvent("report", {{"task_id", task.id},
                          {"kind", std::string(Name(task.kind))},
                          {"round", RoundOf(task)},
                          {"status", std::string(Name(report.kind))},
                          {"error", TextCell(report.reason)},
                          {"examples", report.examples.value_or(0)},
                          {"steps", report.steps.value_or(0)},
                          {"train_loss", report.train_loss.value_or(0)},
                          {"train_seconds", report.train_seconds.value_or(0)},
                          {"bytes_up", report.bytes_up},
                          {"resent", report.resent}});
  };
  observer.on_outcome = [](const TaskOutcome& outcome) {
    PrintEvent(
        "outcome",
        {{"task_id", outcome.task}, {"status", std::string(Name(outcome.end))}, {"error", TextCell(outcome.reason)}});
  };
  observer.on_retry = [](const Status& status, int64_t wait_ms) {
    PrintEvent("retry", {{"error", std::string(Message(status))}, {"wait_ms", wait_ms}});
  };
  observer.on_over = [](const PollReply::Over& over) {
    PrintEvent("finished",
               {{"status", std::string(over.failed ? "failed" : "finished")}, {"reason", TextCell(over.sentence)}});
  };
  return observer;
}

// Sends events of `observer` to the log too; null: there is none.
void LogTo(const std::shared_ptr<LogFile>& log, const std::string& client_id, AgentObserver& observer) {
  if (log == nullptr) return;
  const auto write = [log, client_id](const char* level, const std::string& sentence, Fields fields = {}) {
    fields.insert(fields.begin(), {"client_id", client_id});
    log->Write({level, "client", sentence, std::move(fields)});
  };
  const auto of_task = [](const Task& task) {
    return Fields{{"run_id", TextCell(task.run_id)}, {"round", RoundOf(task)}, {"task_id", task.id}};
  };
  auto awaited = std::make_shared<std::string>();
  auto lost = std::make_shared<Unreachable>();
  observer.on_wait = [=, tell = std::move(observer.on_wait)](const Awaited& now, int64_t wait_ms) {
    lost->Over();
    if (std::exchange(*awaited, now.sentence) != now.sentence) write("info", "waiting: " + now.sentence);
    tell(now, wait_ms);
  };
  observer.on_task = [=, tell = std::move(observer.on_task)](const Task& task) {
    lost->Over();
    awaited->clear();
    write("info", task.kind == TaskKind::kTrain ? "training" : "measuring a model", of_task(task));
    tell(task);
  };
  observer.on_report = [=, tell = std::move(observer.on_report)](const Task& task, const TaskReport& report) {
    const bool good = report.kind == TaskReport::Kind::kAccepted || report.kind == TaskReport::Kind::kDuplicate;
    Fields fields = of_task(task);
    fields.insert(fields.end(), {{"examples", report.examples.value_or(0)},
                                 {"seconds", report.train_seconds.value_or(0)},
                                 {"bytes_up", report.bytes_up},
                                 {"resent", report.resent},
                                 {"status", std::string(Name(report.kind))}});
    write(good ? "info" : "warning", good ? "done" : report.reason, std::move(fields));
    tell(task, report);
  };
  observer.on_outcome = [=, tell = std::move(observer.on_outcome)](const TaskOutcome& outcome) {
    const bool folded = outcome.end == TaskEnd::kFolded;
    write(folded ? "info" : "warning", folded ? "counted" : outcome.reason,
          {{"task_id", outcome.task}, {"status", std::string(Name(outcome.end))}, {"durable", outcome.durable}});
    if (tell) tell(outcome);
  };
  observer.on_retry = [=, tell = std::move(observer.on_retry)](const Status& status, int64_t wait_ms) {
    if (const std::string line = lost->Line(Message(status), wait_ms); !line.empty()) write("warning", line);
    tell(status, wait_ms);
  };
  observer.on_over = [=, tell = std::move(observer.on_over)](const PollReply::Over& over) {
    write(over.failed ? "error" : "info", over.sentence.empty() ? "the run is over" : over.sentence);
    tell(over);
  };
}

// Handler for faults of the files that this client stores for its later processes.
std::function<void(const std::string&)> NoteOf(const ClientOptions& options, const std::string& name,
                                               std::shared_ptr<LogFile> log) {
  return [name, json = options.json, log = std::move(log)](const std::string& sentence) {
    if (json) {
      PrintEvent("event",
                 {{"level", std::string("warning")}, {"source", std::string("client")}, {"message", sentence}});
    } else {
      PrintNote(OneLine(sentence), Note::kImportant, name);
    }
    if (log != nullptr) log->Write({"warning", "client", sentence, {{"client_id", name}}});
  };
}

// Null if no update is to be persisted.
std::shared_ptr<PersistedUpdates> PersistedIn(const ClientOptions& options, const std::string& name,
                                              std::function<void(const std::string&)> note) {
  const int64_t megabytes = options.hold_megabytes.value_or(kHoldMegabytes);
  if (megabytes == 0) return nullptr;
  return std::make_shared<PersistedUpdates>(FileSystem::Default(), JoinPath(options.state, "updates"), name,
                                            PersistedUpdates::Options{megabytes * 1'000'000, std::move(note)});
}

// Null if an interrupted training is to restart from its beginning.
std::shared_ptr<TrainingCheckpoint> CheckpointIn(const ClientOptions& options, const std::string& name,
                                                 std::function<void(const std::string&)> note) {
  const int64_t seconds = options.checkpoint_seconds.value_or(kCheckpointSeconds);
  if (seconds == 0) return nullptr;
  return std::make_shared<TrainingCheckpoint>(
      FileSystem::Default(), JoinPath(options.state, "training"), name,
      TrainingCheckpoint::Options{std::chrono::seconds(seconds), RIVULET_VERSION, std::move(note)});
}

// null: the default, without a policy's limit.
std::shared_ptr<RowBudget> RowsWithin(const SitePolicy::Budget& budget) {
  if (budget.memory_bytes == 0) return nullptr;
  return std::make_shared<RowBudget>(std::min(budget.RowBytes(), ArtifactCache::kDefaultRowBytes));
}

// The bases of the command line, checked now, and the folder of downloads.
StatusOr<std::shared_ptr<BaseStore>> BasesOf(const ClientOptions& options,
                                             std::function<void(const std::string&)> note) {
  BaseStoreOptions of_store{.folder = options.base_dir, .note = std::move(note)};
  if (options.base_megabytes) of_store.megabytes = *options.base_megabytes;
  auto bases = std::make_shared<BaseStore>(std::move(of_store));
  for (const std::string& base : options.bases) {
    const size_t equals = base.find('=');
    if (equals == base.npos) {
      return UsageError("--base takes DIGEST=FILE, not '{}'; `rivulet model base FILE` prints the digest", base);
    }
    const StatusOr<Digest> digest = Digest::FromHex(base.substr(0, equals));
    if (!digest.ok()) return AsUsageError(Annotate(digest.status(), "--base"));
    RIVULET_RETURN_IF_ERROR(Annotate(bases->Give(*digest, base.substr(equals + 1)), "--base"));
  }
  return bases;
}

// Null if the policy has no time conditions: checking the machine opens a dozen system files, and a client checks
// before each poll.
std::function<std::string()> UnwillingBy(const SitePolicy::When& when) {
  if (when.Always()) return nullptr;
  return [&when] { return WhyNotNow(when, LookAtMachine()); };
}

// Null if the policy has no privacy budget. An older program kept one ledger per state folder.
StatusOr<std::shared_ptr<PrivacyLedger>> LedgerIn(const ClientOptions& options, const SitePolicy::Privacy& privacy,
                                                  const Security& security) {
  if (privacy.max_epsilon == 0) return nullptr;
  std::optional<Digest> authority;
  if (security.identity != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(authority, FingerprintOf(security.identity()->authority));
  }
  const std::string folder = privacy.ledger.empty() ? JoinPath(options.state, "privacy") : privacy.ledger;
  RIVULET_ASSIGN_OR_RETURN(auto ledger, PrivacyLedger::Open(FileSystem::Default(), PrivacyLedgerPath(folder, authority),
                                                            {privacy.max_epsilon, privacy.delta},
                                                            JoinPath(options.state, "privacy-ledger")));
  return std::shared_ptr<PrivacyLedger>(std::move(ledger));
}

Status ShowPlanFile(const ClientOptions& options, const SitePolicy& policy) {
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, FileSystem::Default().ReadAll(options.show_plan));
  const StatusOr<std::shared_ptr<const Plan>> plan = Plan::Open(std::move(bytes));
  if (!plan.ok()) return Annotate(plan.status(), options.show_plan);
  PrintPlan(**plan, policy, options.json);
  return absl::OkStatus();
}

Status ShowOfferedPlan(const ClientOptions& options, const SitePolicy& policy, GrpcClient& connection,
                       const std::string& name, std::span<const BoundData> data) {
  StopSignal stop;
  Interrupt interrupt;
  interrupt.Call([&] {
    stop.Stop();
    connection.Cancel();
  });
  PollRequest request{.caller = {.name = name},
                      .capabilities = {.version = RIVULET_VERSION, .datasets = OffersOf(data)},
                      .hold_ms = 20'000};
  if (policy.secure.asked()) request.capabilities.datasets = WithoutNumbers(OffersOf(data));
  StatusOr<std::shared_ptr<const Plan>> plan =
      OfferedPlan(connection, stop, request, policy.budget.TaskBytes(),
                  [&name](const std::string& sentence) { PrintNote(OneLine(sentence), Note::kProgress, name); });
  interrupt.Forget();
  RIVULET_RETURN_IF_ERROR(plan.status());
  PrintPlan(**plan, policy, options.json);
  return absl::OkStatus();
}

// A client with a certificate takes part in secure sums; null without one.
std::shared_ptr<const SecureIdentity> SecureBy(const Security& security, const std::string& state,
                                               const SitePolicy::Secure& policy) {
  if (security.identity == nullptr) return nullptr;
  auto secure = std::make_shared<SecureIdentity>();
  secure->identity = security.identity;
  secure->policy = {.min_cohort = policy.min_cohort,
                    .min_survivors = policy.min_survivors,
                    .max_colluding = policy.max_colluding,
                    .least_sum = policy.least_sum};
  secure->hides_examples = policy.asked();
  secure->answered = std::make_shared<AnsweredTasks>(FileSystem::Default(), JoinPath(state, "answered"));
  secure->now = [] { return Clock::System().UnixMs() / 1000; };
  secure->revocations = std::make_shared<SeenRevocations>(FileSystem::Default(), JoinPath(state, "cohorts"));
  secure->protect = secure::ForbidCoreDumps;
  return secure;
}

// The keeper of receipts; null without --receipts.
std::shared_ptr<ReceiptKeeper> ReceiptsIn(const ClientOptions& options, const Security& security,
                                          std::function<void(const std::string&)> note) {
  if (options.receipts.empty()) return nullptr;
  ReceiptKeeper::Options of_keeper{.folder = options.receipts, .authority = nullptr, .note = std::move(note)};
  if (security.identity != nullptr) {
    of_keeper.authority = [identity = security.identity, held = std::shared_ptr<const NodeIdentity>()]() mutable {
      held = identity();
      return &held->authority;
    };
  }
  return std::make_shared<ReceiptKeeper>(FileSystem::Default(), std::move(of_keeper));
}

// The name in its certificate, or else --name.
StatusOr<std::string> NameOfClient(const ClientOptions& options, const Security& security) {
  if (!security.name.empty() && !options.name.empty()) {
    return UsageError("the certificate names this client '{}'; leave out --name", security.name);
  }
  if (security.name.empty() && options.name.empty()) {
    return UsageError("without a certificate this client has no name; give --name ID");
  }
  const std::string& name = security.name.empty() ? options.name : security.name;
  RIVULET_RETURN_IF_ERROR(AsUsageError(CheckDisplayName("--name", name)));
  return name;
}

Status ServeAsClient(const ClientOptions& options) {
  if (options.preflight) return PreflightClient(options);
  RIVULET_ASSIGN_OR_RETURN(const SitePolicy policy, PolicyOf(options));
  if (!options.show_plan.empty() && options.show_plan != kOffered) return ShowPlanFile(options, policy);
  RIVULET_RETURN_IF_ERROR(KeepWithin(policy.budget));  // before there are other threads
  TakeLongTurns();
  StatusOr<NetworkAddress> address = ParseAddress(options.coordinator);
  if (!address.ok()) return AsUsageError(Annotate(address.status(), "--coordinator"));
  // The revocation list is the first file there. Without the folder it is not stored, which is a warning and no
  // error.
  if (!options.security.tls.empty()) FileSystem::Default().CreateFolders(options.state).IgnoreError();
  RIVULET_ASSIGN_OR_RETURN(Security security,
                           SecurityOf(options.security, Role::kClient, *address, JoinPath(options.state, "client"),
                                      [&options](const std::string& sentence) {
                                        options.json ? PrintEvent("event", {{"level", std::string("warning")},
                                                                            {"source", std::string("security")},
                                                                            {"message", sentence}})
                                                     : PrintNote(OneLine(sentence), Note::kImportant);
                                      }));
  RIVULET_ASSIGN_OR_RETURN(const std::string name, NameOfClient(options, security));
  if (!options.kernels.empty() && options.kernels != "native" && options.kernels != "portable")
    return UsageError("--kernels takes native or portable, not '{}'", options.kernels);
  RIVULET_RETURN_IF_ERROR(CheckStateFolder(options.state));
  RIVULET_RETURN_IF_ERROR(CheckOneGpu(options.device.device, "a client trains"));
  RIVULET_ASSIGN_OR_RETURN(TrainingDevice device, DeviceOf(options.device));
  device.soft = options.device.soft;
  if (device.device != nullptr && options.checkpoint_seconds.value_or(0) > 0) {
    return UsageError(
        "--checkpoint-seconds is for training on the processor; leave it out with --device {}, which restarts an "
        "interrupted task",
        options.device.device);
  }
  RIVULET_ASSIGN_OR_RETURN(std::vector<BoundData> data, BindData(options.data, options.tags));
  StatusOr<std::string> proxy = ProxyFor(*address);
  if (!proxy.ok()) return AsUsageError(proxy.status());
  StatusOr<std::unique_ptr<GrpcClient>> connection = GrpcClient::Create({.coordinator = *address,
                                                                         .credentials = std::move(security.credentials),
                                                                         .proxy = *std::move(proxy),
                                                                         .zstd = options.zstd});
  if (absl::IsResourceExhausted(connection.status())) return connection.status();
  if (!connection.ok()) return AsUsageError(Annotate(connection.status(), "--coordinator"));

  if (!options.show_plan.empty()) return ShowOfferedPlan(options, policy, **connection, name, data);

  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<PrivacyLedger> ledger, LedgerIn(options, policy.privacy, security));
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<LogFile> log, LogFile::Open(options.log));
  if (ledger != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(const std::string spent, ledger->Sentence());
    NoteOf(options, name, log)("privacy ledger: " + spent);
  }
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<Watching> watching, Watching::Start(options.trace, "client " + name));
  auto artifacts = std::make_shared<ArtifactCache>(options.kernels, RowsWithin(policy.budget),
                                                   [&policy](const Plan& plan) { return CheckPlan(policy, plan); });
  RIVULET_ASSIGN_OR_RETURN(auto bases, BasesOf(options, NoteOf(options, name, log)));
  artifacts->UseBases(std::move(bases));
  Interrupt interrupt;
  AgentObserver observer = options.json ? ObserveInJson() : ObserveInWords(name);
  LogTo(log, name, observer);
  std::optional<PollReply::Over> over;
  observer.on_over = [&over, tell = std::move(observer.on_over)](const PollReply::Over& told) {
    over = told;
    tell(told);
  };
  Agent agent(
      **connection,
      {.client_id = name,
       .version = RIVULET_VERSION,
       .data = std::move(data),
       .max_upload_rate = options.max_upload_rate.value_or(0) * 1000,
       .observer = std::move(observer),
       .instruments = watching->instruments(),
       .memory_budget = policy.budget.TaskBytes(),
       .available_memory = [] { return LookAtMachine().available_bytes; },
       .unwilling = UnwillingBy(policy.when),
       .artifacts = std::move(artifacts),
       .states = NewStateStore(FileSystem::Default(), options.state, true),
       .persisted = PersistedIn(options, name, NoteOf(options, name, log)),
       .checkpoint = device.device == nullptr ? CheckpointIn(options, name, NoteOf(options, name, log)) : nullptr,
       .ledger = ledger,
       .examples = std::make_shared<ExampleAccounts>(FileSystem::Default(), JoinPath(options.state, kExamplesFolder),
                                                     true, RIVULET_VERSION),
       .trainers = TrainersOn(device),
       .secure = SecureBy(security, options.state, policy.secure),
       .receipts = ReceiptsIn(options, security, NoteOf(options, name, log))});
  interrupt.Call([&] {
    agent.Stop();
    (*connection)->Cancel();
  });
  const Status status = agent.Run();
  interrupt.Forget();
  const Status traced = watching->Finish();
  if (!status.ok() && interrupt.happened()) {
    const Status told = Cancelled("client '{}' was stopped; after a restart it resumes its task", name);
    return interrupt.asked() ? StoppedAsAsked(told) : told;
  }
  RIVULET_RETURN_IF_ERROR(status);
  // The trained updates are in no model, so the exit status must report the failure.
  if (over && over->failed) return Aborted("{}", over->sentence);
  return traced;
}

}  // namespace

Command ClientCommand() {
  auto options = std::make_shared<ClientOptions>();
  Command command{
      .name = "client",
      .summary = "Train for a coordinator on data that never leaves this machine.",
      .example =
          "rivulet client --coordinator fl.example.org:7000 --tls client-hospital-a --data 'train=records/*.tfrecord'\n"
          "  rivulet client --coordinator 127.0.0.1:7000 --insecure --name client-00000 "
          "--data 'train=clients/client-00000.tfrecord'"};
  command.Required("--coordinator", "HOST:PORT", &options->coordinator, "the coordinator's address");
  AddSecurityOptions(command, &options->security);
  command.Option("--name", "ID", &options->name,
                 "with --insecure: this client's name, the same at every start; otherwise its certificate has it");
  command.Repeated("--data", "NAME=GLOB", &options->data,
                   "bind TFRecord files to a name for plans ('train', or the scenario's data.name); repeatable, also "
                   "for other names");
  command.arguments.back().required = true;
  command.Repeated("--tag", "TAG", &options->tags,
                   "tag of this client's data, for runs that select clients by tags (selection.tags); repeatable");
  command.Option("--kernels", "KIND", &options->kernels,
                 "accept only plans with native or with portable kernels [as the plan says]");
  command.Option("--state", "DIR", &options->state,
                 "folder for finished updates until they are durable, and for state between tasks, which never leaves "
                 "it [rivulet-state]");
  command.Option("--hold-megabytes", "N", &options->hold_megabytes,
                 "limit of finished updates in --state until their version is written; 0: keep none, so that a crash "
                 "of either side loses their training [2000]",
                 {.min = 0, .max = 1'000'000'000});
  command.Option("--checkpoint-seconds", "N", &options->checkpoint_seconds,
                 "interval of training checkpoints in --state, from which a crashed training resumes; 0: never [60]",
                 {.min = 0, .max = 1'000'000'000});
  command.Repeated("--base", "DIGEST=FILE", &options->bases,
                   "use this copy of a base (model.base) instead of a download; compared at the start; repeatable");
  command.Option("--base-dir", "DIR", &options->base_dir,
                 "folder of downloaded bases, which clients may share [~/.cache/rivulet/bases]");
  command.Option("--base-megabytes", "N", &options->base_megabytes,
                 "limit of that folder; the base that was not used for the longest time is removed [100000]",
                 {.min = 0, .max = 1'000'000'000});
  command.Option("--device", "cpu|gpu|gpu:N|check", &options->device.device,
                 "device for training: the processor or a GPU; N counts from 0 in CUDA_VISIBLE_DEVICES; check: train "
                 "on GPU 0 and the processor, and refuse differing results [cpu]");
  command.Flag("--soft", &options->device.soft, "train plans that the device does not support on the processor");
  command.Option("--policy", "FILE", &options->policy,
                 "this site's policy: allowed authors, ops and columns of plans (docs/guide/site.md)");
  command.Option("--receipts", "DIR", &options->receipts,
                 "keep the newest record of each run, and a receipt of each update that counted; refuse tasks of a "
                 "coordinator that shows another history of a run than before");
  command.Option("--show-plan", "FILE", &options->show_plan,
                 "train nothing: print the work of this plan here, or with 'offered' of the coordinator's plan");
  command.Flag("--preflight", &options->preflight,
               "train nothing: check certificate, clock, data, disk, memory and connection, and print remedies; with "
               "--show-plan FILE check the data against that plan too");
  command.Option("--max-upload-rate", "N", &options->max_upload_rate, "send at most N KB a second [no limit]",
                 {.min = 1, .max = 1'000'000'000});
  command.Flag("--zstd", &options->zstd,
               "compress models and updates on the connection, if the coordinator supports that");
  command.Flag("--json", &options->json, "print events as JSON on stdout, one object per line");
  AddLogOptions(command, &options->log);
  AddTraceOptions(command, &options->trace);
  command.run = [options] { return ServeAsClient(*options); };
  return command;
}

}  // namespace rivulet
