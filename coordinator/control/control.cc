#include "coordinator/control/control.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/display_name.h"

namespace rivulet {
namespace {

// The reason for a client whose lease an operator's action ends.
std::string WhyGone(std::string_view deed, const std::string& detail) {
  return detail.empty() ? fmt::format("{} by an operator", deed) : fmt::format("{} by an operator: {}", deed, detail);
}

Status CheckDetail(const std::string& detail) {
  constexpr size_t kLongest = 1000;
  if (detail.size() <= kLongest) return absl::OkStatus();
  return InvalidArgument("a reason has at most {} bytes, and this one {}", kLongest, detail.size());
}

}  // namespace

StatusOr<std::unique_ptr<Control>> Control::Create(ControlOptions options) {
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<History> history,
                           History::Open(options.db_path, History::Access::kReadWrite));
  std::unique_ptr<Control> control(new Control(std::move(options), std::move(history)));
  RIVULET_RETURN_IF_ERROR(control->Recall());
  return control;
}

// A resumed run has its members from its rows, including those that operators removed.
Status Control::Recall() {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<AuditRow> audit, history_->Audit());
  std::map<std::string, std::string> reasons;
  for (const AuditRow& row : audit) {
    if (row.action == "ban") reasons[row.client_id] = row.detail;
  }
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ClientRow> decided, history_->DecidedClients());
  for (const ClientRow& client : decided) {
    if (client.status == "approved") options_.roster->Approve(client.client_id);
    if (client.status == "banned") options_.roster->Ban(client.client_id, reasons[client.client_id]);
    if (client.status == "approved") continue;
    for (const auto& run : options_.host->runs()) {
      run->Remove(client.client_id, WhyGone(client.status, reasons[client.client_id]));
    }
  }
  return absl::OkStatus();
}

void Control::Revoked(const std::string& caller, const std::string& serial, const std::string& sentence) {
  if (!options_.roster->Revoked(caller, serial, sentence)) return;
  // As a client and as a site: it may have tasks of either.
  for (const auto& run : options_.host->runs()) {
    run->Remove(caller, sentence);
    run->LoseSite(caller);
  }
}

StatusOr<ServedRuns> Control::Runs(const OperatorCaller&) {
  ServedRuns served;
  for (const auto& run : options_.host->runs()) served.runs.push_back(run->Standing().state);
  if (options_.warnings) served.warnings = options_.warnings();
  return served;
}

// Clients that called this process are in the roster; those of earlier processes in the history.
StatusOr<ClientPage> Control::Clients(const OperatorCaller&, const std::string& after) {
  std::map<std::string, ClientState> found;
  constexpr size_t kMost = kClientsOfAPage + 1;
  for (ClientState& client : options_.roster->Clients(after, kMost)) {
    const std::string name = client.client_id;
    found.emplace(name, std::move(client));
  }
  RIVULET_ASSIGN_OR_RETURN(const std::vector<ClientRow> rows, history_->ClientsAfter(after, kMost));
  for (const ClientRow& row : rows) {
    ClientState& client = found[row.client_id];
    if (client.client_id.empty()) client = {.client_id = row.client_id, .state = "away"};
    if (row.status == "removed" && client.state == "away") client.state = "removed";
    if (client.last_seen_unix_ms == 0 && !row.last_seen_at.empty()) {
      RIVULET_ASSIGN_OR_RETURN(client.last_seen_unix_ms, UnixMs(row.last_seen_at));
    }
  }
  for (const auto& run : options_.host->runs()) {
    if (run->over()) continue;
    const RunStatus standing = run->Standing();
    for (const RunStatus::Work& work : standing.work) {
      const auto client = found.find(work.client_id);
      if (client == found.end() || !client->second.task.empty()) continue;
      client->second.run_id = standing.state.run_id;
      client->second.round = work.round;
      client->second.task = work.task;
      client->second.doing = work.state;
      client->second.since_unix_ms = work.since_unix_ms;
      if (!work.via.empty()) client->second.via = work.via;
    }
  }
  ClientPage page{.clients = {}, .more = found.size() > kClientsOfAPage};
  for (auto& [name, client] : found) {
    if (page.clients.size() == kClientsOfAPage) break;
    page.clients.push_back(std::move(client));
  }
  return page;
}

StatusOr<std::vector<AuditEntry>> Control::Audit(const OperatorCaller&) {
  RIVULET_ASSIGN_OR_RETURN(const std::vector<AuditRow> rows, history_->Audit());
  std::vector<AuditEntry> entries;
  for (size_t i = rows.size() - std::min(rows.size(), kAuditEntriesTold); i < rows.size(); ++i) {
    const AuditRow& row = rows[i];
    entries.push_back({row.at, row.operator_id, row.serial, row.action, row.run_id, row.client_id, row.detail});
  }
  return entries;
}

StatusOr<std::shared_ptr<Coordinator>> Control::FindRun(const std::string& run) const {
  const auto runs = options_.host->runs();
  std::vector<std::shared_ptr<Coordinator>> live;
  std::string known;
  std::shared_ptr<Coordinator> named;
  for (const auto& each : runs) {
    const RunState state = each->Standing().state;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", state.run_id);
    if (!each->over()) live.push_back(each);
    if (state.run_id == run) return each;
    if (state.name == run) named = each;
  }
  if (named != nullptr) return named;
  if (!run.empty()) {
    return NotFound("no run '{}' is served here{}{}", DisplayText(run, 80), known.empty() ? "" : "; there are ", known);
  }
  if (live.size() == 1) return live[0];
  if (live.empty()) return FailedPrecondition("no run is under way here");
  return InvalidArgument("{} runs are under way here: {}; say which", live.size(), known);
}

StatusOr<std::string> Control::Command(const OperatorCaller& caller, const OperatorCommand& command) {
  RIVULET_RETURN_IF_ERROR(CheckDetail(command.detail));
  const AuditRow row{.at = Iso8601(options_.now_unix_ms()),
                     .operator_id = caller.name,
                     .serial = caller.serial,
                     .action = command.action,
                     .run_id = "",
                     .client_id = command.subject,
                     .detail = command.detail};
  MutexLock lock(mutex_);
  static const std::set<std::string, std::less<>> of_clients = {"approve", "ban", "remove"};
  static const std::set<std::string, std::less<>> of_runs = {"pause", "resume", "stop", "abort"};
  if (of_clients.contains(command.action)) return Decide(row);
  if (of_runs.contains(command.action)) return Steer(row, command.subject);
  return InvalidArgument(
      "an operator can approve, ban and remove clients, and pause, resume, stop and abort runs; not '{}'",
      DisplayText(command.action, 80));
}

StatusOr<std::string> Control::Decide(const AuditRow& row) {
  const std::string& name = row.client_id;
  RIVULET_RETURN_IF_ERROR(CheckDisplayName("a client's name", name));
  ClientRegistry& roster = *options_.roster;
  if (row.action == "remove" && roster.banned(name)) {
    return FailedPrecondition("client '{}' is banned, and stays so; approve it before it is removed", name);
  }
  RIVULET_RETURN_IF_ERROR(history_->DecideClient(row));
  if (row.action == "approve") {
    roster.Approve(name);
    return fmt::format("client '{}' is approved", name);
  }
  const bool ban = row.action == "ban";
  // Ban first, then remove: in the other order the client could join again in between.
  if (ban) roster.Ban(name, row.detail);
  bool member = false;
  for (const auto& run : options_.host->runs()) {
    member = run->Remove(name, WhyGone(ban ? "banned" : "removed", row.detail)) || member;
  }
  if (!ban) roster.Forget(name);
  return fmt::format("client '{}' is {}{}", name, ban ? "banned" : "removed",
                     member ? "" : "; it was in no run that is under way");
}

StatusOr<std::string> Control::Steer(AuditRow row, const std::string& run_name) {
  RIVULET_ASSIGN_OR_RETURN(const std::shared_ptr<Coordinator> run, FindRun(run_name));
  const RunState state = run->Standing().state;
  if (run->over()) {
    return FailedPrecondition("run '{}' is over ({}), and cannot {}", state.run_id, state.state, row.action);
  }
  row.client_id.clear();
  row.run_id = state.run_id;
  RIVULET_RETURN_IF_ERROR(history_->AddAudit(row));
  if (row.action == "pause") {
    run->Steer(Steering::kPause);
    return fmt::format("run '{}' is paused: {}", state.run_id, run->Standing().state.awaits);
  }
  if (row.action == "resume") {
    run->Steer(Steering::kResume);
    return fmt::format("run '{}' resumes", state.run_id);
  }
  if (row.action == "abort") {
    run->Steer(Steering::kStop);
    return fmt::format("run '{}' is ended", state.run_id);
  }
  run->Steer(Steering::kFinish);
  if (run->over()) return fmt::format("run '{}' is ended", state.run_id);
  return fmt::format("run '{}' ends once round {} is committed: {}", state.run_id, state.round,
                     run->Standing().state.awaits);
}

StatusOr<std::string> Control::StartRun(const OperatorCaller& caller, const RunSubmission& submission) {
  if (!options_.start) {
    return FailedPrecondition(
        "this coordinator serves the run that it was started with; one that takes others is started without a "
        "scenario: rivulet coordinator --listen HOST:PORT");
  }
  // Opening its data and writing its first version takes seconds; other commands are executed meanwhile.
  MutexLock one_at_a_time(starting_);
  RIVULET_ASSIGN_OR_RETURN(const std::string run_id, options_.start(submission));
  MutexLock lock(mutex_);
  RIVULET_RETURN_IF_ERROR(history_->AddAudit({.at = Iso8601(options_.now_unix_ms()),
                                              .operator_id = caller.name,
                                              .serial = caller.serial,
                                              .action = "submit",
                                              .run_id = run_id,
                                              .client_id = "",
                                              .detail = ""}));
  return run_id;
}

}  // namespace rivulet
