// rivulet preflight: all checks that are possible before a coordinator is started for months, with a run or without
// one. `rivulet client --preflight` is the client's counterpart.
#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "certificates/certificate.h"
#include "cli/command.h"
#include "cli/run/findings.h"
#include "cli/run/options.h"
#include "cli/run/security.h"
#include "client/agent/eligibility.h"
#include "coordinator/history/history.h"
#include "engine/base/clock.h"
#include "engine/base/file_system.h"
#include "setup/plan_file.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

constexpr int64_t kLeastFree = 100'000'000;  // the history and its log

struct PreflightOptions {
  ScenarioOptions run;
  SecurityOptions security;
  std::string listen, plan;
  bool json = false;
};

// Another process may take the port between this check and the start; the check finds one that has it now.
Status TryToListen(const NetworkAddress& address) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const int code = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (code != 0) return InvalidArgument("'{}' is no address of this machine: {}", address.host, gai_strerror(code));
  const int file = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, found->ai_protocol);
  const int on = 1;
  if (file >= 0) setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int failed =
      file >= 0 && bind(file, found->ai_addr, found->ai_addrlen) == 0 && listen(file, 1) == 0 ? 0 : errno;
  if (file >= 0) close(file);
  freeaddrinfo(found);
  if (failed == 0) return absl::OkStatus();
  const char* const mend = failed == EADDRINUSE      ? "another process listens there; stop it, or name another port"
                           : failed == EADDRNOTAVAIL ? "no network of this machine has that address; 0.0.0.0 is all"
                           : failed == EACCES        ? "ports below 1024 are the administrator's; name another"
                                                     : std::strerror(failed);
  return FailedPrecondition("{} cannot be listened on: {}", address.ToString(), mend);
}

void LookAtMemory(int64_t wanted, Findings& findings) {
  const int64_t memory = LookAtMachine().available_bytes;
  const bool known = memory != std::numeric_limits<int64_t>::max();
  const std::string free = fmt::format(
      "{}, and about {} MB are needed",
      known ? fmt::format("{} MB are free", memory / 1'000'000) : "the free memory is unknown", wanted / 1'000'000);
  memory >= wanted ? findings.Good("memory", free)
                   : findings.Wrong("memory", ResourceExhausted("{}", free), "use a machine with more");
}

void LookAtDiskOf(const std::string& db, int64_t wanted, Findings& findings) {
  LookAtDisk(FolderOf(db), wanted, "put the history elsewhere with --db", findings);
}

// Checks each part that a run needs, up to the first fault: later parts depend on it.
void LookAtRun(const PreflightOptions& options, Findings& findings) {
  StatusOr<Scenario> scenario = LoadScenario(options.run);
  if (!scenario.ok()) return findings.Wrong("scenario", scenario.status());
  std::shared_ptr<const Plan> plan;
  if (!options.plan.empty()) {
    StatusOr<PlanFile> file = ReadPlanFile(FileSystem::Default(), options.plan, *scenario);
    if (!file.ok()) return findings.Wrong("plan", file.status());
    plan = std::move(file->plan);
    scenario = std::move(file->scenario);
  }
  findings.Good("scenario", fmt::format("'{}', {} rounds", scenario->run.name, scenario->run.rounds));
  RunSetup setup(*scenario, {.plan = std::move(plan)});
  const StatusOr<std::shared_ptr<const Plan>> opened = setup.plan();
  if (!opened.ok()) return findings.Wrong("plan", opened.status());
  const int64_t model = (*opened)->layout()->parameters() * static_cast<int64_t>(sizeof(float));
  findings.Good("plan", fmt::format("'{}', {} parameters", (*opened)->name(), (*opened)->layout()->parameters()));
  const StatusOr<std::shared_ptr<Evaluator>> evaluator = setup.evaluator();
  evaluator.ok()
      ? findings.Good("data", *evaluator == nullptr ? "the scenario names no test set" : "the test set can be read")
      : findings.Wrong("data", evaluator.status());
  // Versions on disk: two with `last`, and one that is being written.
  const int64_t kept = scenario->run.keep_models == "all" ? scenario->run.rounds : 3;
  LookAtDiskOf(options.run.db, kLeastFree + kept * model, findings);
  LookAtMemory(kLeastFree + 4 * model, findings);  // two versions, their sum, an update
}

void LookAtHistory(const std::string& db, Findings& findings) {
  if (!FileSystem::Default().Exists(db)) return findings.Good("history", fmt::format("'{}' will be made", db));
  const auto history = History::Open(db, History::Access::kReadWrite);
  if (!history.ok()) return findings.Wrong("history", history.status());
  const auto runs = (*history)->Runs();
  if (!runs.ok()) return findings.Wrong("history", runs.status());
  findings.Good("history", fmt::format("'{}' has {} {}", db, runs->size(), runs->size() == 1 ? "run" : "runs"));
}

Status Preflight(const PreflightOptions& options) {
  Findings findings;
  if (!options.run.scenario.empty()) {
    LookAtRun(options, findings);
  } else if (!options.plan.empty() || !options.run.sets.empty()) {
    return UsageError("{} is of a run; give its SCENARIO.toml too", options.plan.empty() ? "--set" : "--plan");
  } else {
    LookAtDiskOf(options.run.db, kLeastFree, findings);
    LookAtMemory(kLeastFree, findings);
  }
  LookAtHistory(options.run.db, findings);
  const StatusOr<NetworkAddress> listen = ParseAddress(options.listen);
  if (!listen.ok()) {
    findings.Wrong("port", Annotate(listen.status(), "--listen"));
    return findings.Print(options.json);
  }
  const Status free = TryToListen(*listen);
  free.ok() ? findings.Good("port", fmt::format("{} is free", listen->ToString())) : findings.Wrong("port", free);
  std::string soon;
  const StatusOr<Security> security = SecurityOf(options.security, Role::kCoordinator, *listen, "",
                                                 [&soon](const std::string& sentence) { soon = sentence; });
  const std::string today = TimeText(Clock::System().UnixMs() / 1000);
  if (!security.ok()) {
    findings.Wrong("certificate", security.status(), fmt::format("this machine's clock is at {}", today));
  } else if (!soon.empty()) {
    findings.Soon("certificate", soon);
  } else {
    findings.Good("certificate", security->name.empty()
                                     ? "none, because of --insecure"
                                     : fmt::format("coordinator/{}, good at {}", security->name, today));
  }
  return findings.Print(options.json);
}

const RegisterCommand kPreflight(28, [] {
  auto options = std::make_shared<PreflightOptions>();
  Command command{.name = "preflight",
                  .summary = "Check everything that a coordinator needs before it is started, and print remedies.",
                  .example =
                      "rivulet preflight scenario.toml --listen 0.0.0.0:7000 --tls coordinator-fl.example.org\n"
                      "  rivulet client --preflight --coordinator fl.example.org:7000 --tls client-hospital-a --data "
                      "'train=records/*.tfrecord'"};
  command
      .OptionalPositional("SCENARIO.toml", &options->run.scenario,
                          "the scenario to run; without it the coordinator waits for submitted runs")
      .Repeated("--set", "KEY=VALUE", &options->run.sets, "set a key of the scenario; repeatable")
      .Option("--db", "FILE", &options->run.db, "the history [./rivulet.sqlite]")
      .Option("--plan", "FILE", &options->plan, "the plan to start the run with")
      .Required("--listen", "HOST:PORT", &options->listen, "listening address");
  AddSecurityOptions(command, &options->security);
  command.Flag("--json", &options->json, "print it as JSON");
  command.run = [options] { return Preflight(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
