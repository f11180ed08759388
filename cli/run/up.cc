// rivulet up: a deployment on this machine. Starts a coordinator and its clients as processes of this same binary,
// shows one display of their events (--json), and ends them all together.
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>

#include "certificates/ephemeral_authority.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/run/child_process.h"
#include "cli/run/options.h"
#include "cli/run/prepare_data.h"
#include "cli/run/progress.h"
#include "cli/run/python_aggregation.h"
#include "cli/run/result.h"
#include "cli/terminal.h"
#include "engine/base/json.h"
#include "setup/model.h"
#include "setup/partition_files.h"
#include "setup/run_members.h"
#include "setup/run_setup.h"

namespace rivulet {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct UpOptions {
  ScenarioOptions run;
  AggregateOptions aggregate;
  std::optional<int64_t> clients;
  bool json = false;
};

// A child's event on a line; null if the line is none.
Json EventOf(std::string_view line) { return Json::Parse(line).value_or(Json()); }
std::string TextOr(const Json& value, std::string_view absent) {
  return value.IsText() ? value.text() : std::string(absent);
}

// A folder that is removed with this object.
class UpFolder {
 public:
  static StatusOr<std::unique_ptr<UpFolder>> Create() {
    const char* base = std::getenv("TMPDIR");
    std::string path = JoinPath(base != nullptr && *base != '\0' ? base : "/tmp", "rivulet-up-XXXXXX");
    if (mkdtemp(path.data()) == nullptr) return Internal("no temporary folder could be made as '{}'", path);
    return std::unique_ptr<UpFolder>(new UpFolder(path));
  }
  ~UpFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit UpFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

// `path` as a glob pattern that matches nothing else.
std::string GlobQuote(const std::string& path) {
  std::string quoted;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

struct Client {
  std::string name;
  std::vector<std::string> arguments;
  std::unique_ptr<ChildProcess> process;
  std::string state = "starting";
  std::string last_error;  // last line on its stderr
  int64_t folded = 0;
  int restarts = 0;
  bool done = false;
};

// On a terminal the clients' lines and the run's, redrawn; else a line per round.
class UpPicture {
 public:
  explicit UpPicture(int64_t rounds) : terminal_(StderrIsTerminal()), tracker_(rounds) {}

  void Note(const std::string& sentence) {
    Erase();
    PrintNote(OneLine(sentence), ::rivulet::Note::kImportant);
  }

  void Round(const Json& event) {
    RoundReport report;
    report.round = event.At("round").integer();
    if (const Json& loss = event.At("train_loss"); loss.IsNumber()) report.train_loss = loss.number();
    for (const auto& [name, value] : event.members()) {
      if (name.find('/') != name.npos && value.IsNumber()) report.central[name] = value.number();
    }
    if (event.At("status").text() != "committed") {
      Note(fmt::format("round {}, attempt {}: {}: {}", report.round, event.At("attempt").integer(),
                       event.At("status").text(), event.At("reason").text()));
      return;
    }
    tracker_.Round(report);
    within_ = 0;
    if (CurrentProgressStyle() == ProgressStyle::kQuiet) return;
    const bool json = CurrentProgressStyle() == ProgressStyle::kJson;
    if (!terminal_) fmt::print(stderr, "{}\n", json ? tracker_.Json(report.round) : tracker_.Line(report.round, 0));
  }

  void Evaluation(const Json& event) {
    EvaluationReport report;
    report.round = event.At("round").integer();
    report.folded = event.At("folded").integer();
    report.reason = event.At("reason").text();
    for (const auto& [name, value] : event.members()) {
      const bool measure = name.starts_with("evaluate/") || name.starts_with("personal/");
      if (measure && value.IsNumber()) report.federated[name] = value.number();
    }
    if (CurrentProgressStyle() != ProgressStyle::kQuiet) Note(EvaluationLine(report));
  }

  void Progress(int64_t folded, int64_t selected) {
    within_ = selected > 0 ? static_cast<double>(folded) / static_cast<double>(selected) : 0;
  }

  void Draw(const std::deque<Client>& clients, bool now = false) {
    if (!terminal_ || (!now && SteadyClock::now() - drawn_ < std::chrono::milliseconds(100))) return;
    drawn_ = SteadyClock::now();
    winsize size = {};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) size = {24, 80, 0, 0};
    const size_t columns = std::max<size_t>(size.ws_col, 20) - 1, room = std::max<size_t>(size.ws_row, 4) - 3;
    std::vector<std::string> lines;
    if (clients.size() <= room) {
      for (const Client& client : clients) {
        lines.push_back(fmt::format("  {:<16} {:>4} folded  {}", client.name, client.folded, client.state));
      }
    } else {
      std::map<std::string, int> states;
      for (const Client& client : clients) ++states[client.state];
      for (const auto& [state, count] : states) {
        if (lines.size() < room) lines.push_back(fmt::format("  {:>5} {}", count, state));
      }
    }
    lines.push_back(tracker_.Line(std::min(tracker_.round() + 1, tracker_.rounds()), within_, columns));
    Erase();
    for (const std::string& line : lines) fmt::print(stderr, "{}\n", line.substr(0, columns));
    std::fflush(stderr);
    drawn_lines_ = lines.size();
  }

  // The drawn lines stay.
  void Finish() { drawn_lines_ = 0; }

 private:
  void Erase() {
    if (drawn_lines_ > 0) fmt::print(stderr, "\033[{}F\033[J", drawn_lines_);
    drawn_lines_ = 0;
  }

  const bool terminal_;
  RoundTracker tracker_;
  double within_ = 0;
  SteadyClock::time_point drawn_;
  size_t drawn_lines_ = 0;
};

// Processes, not threads, with the arguments of a user: `up` behaves like a deployment on several machines, faults
// included, and the processes share only the network.
class Deployment {
 public:
  // `folder` belongs to this deployment and is removed with it.
  Deployment(const UpOptions& options, int64_t rounds, std::string folder)
      : options_(options), folder_(std::move(folder)), picture_(rounds) {}

  // Runs those clients that are members, with their shares in `files`, bound to `data_name`.
  Status Run(const Shares& shares, const std::vector<std::string>& files, const std::string& data_name,
             const Population& members, const PartitionConfig& partition) {
    RIVULET_ASSIGN_OR_RETURN(const auto authority, EphemeralAuthority::Create(Clock::System()));
    RIVULET_ASSIGN_OR_RETURN(const std::string tls,
                             Certify(authority, {Role::kCoordinator, "localhost"}, {"localhost", "127.0.0.1"}));
    RIVULET_RETURN_IF_ERROR(StartCoordinator(tls));
    for (size_t i = 0; i < files.size(); ++i) {
      std::string name = shares.NameAt(static_cast<int64_t>(i));
      if (!members.Find(name)) continue;
      Client& client = clients_.emplace_back();
      client.name = std::move(name);
      RIVULET_ASSIGN_OR_RETURN(const std::string its, Certify(authority, {Role::kClient, client.name}, {}));
      client.arguments = {"client", "--json", "--tls=" + its, "--data=" + data_name + "=" + GlobQuote(files[i]),
                          "--state=" + options_.run.db + ".clients"};
      for (const std::string& tag : TagsOf(partition, client.name)) client.arguments.push_back("--tag=" + tag);
    }
    const Status status = Watch();
    picture_.Draw(clients_, true);
    picture_.Finish();
    StopAll();
    if (interrupt_.happened()) {
      if (run_id_.empty()) return Cancelled("interrupted before the run began");
      return InterruptedError("up", options_.run,
                              fmt::format("--clients {}", *options_.clients) + ShellArguments(options_.aggregate),
                              run_id_);
    }
    RIVULET_RETURN_IF_ERROR(status);
    return PrintResult(options_.run.db, run_id_, options_.json);
  }

 private:
  // Makes a separate folder with the certificate and key of a node of this name.
  StatusOr<std::string> Certify(const EphemeralAuthority& authority, CertificateName name,
                                std::vector<std::string> hosts) {
    std::string folder = JoinPath(folder_, fmt::format("tls-{}", certified_++));
    RIVULET_RETURN_IF_ERROR(
        authority.Issue({.name = std::move(name), .hosts = std::move(hosts)}, FileSystem::Default(), folder));
    return folder;
  }

  Status StartCoordinator(const std::string& tls) {
    std::vector<std::string> arguments = {"coordinator", "--listen=127.0.0.1:0", "--tls=" + tls, "--json"};
    const std::vector<std::string> run = ProcessArguments(options_.run);
    arguments.insert(arguments.end(), run.begin(), run.end());
    if (!options_.aggregate.function.empty()) arguments.push_back("--aggregate=" + options_.aggregate.function);
    if (options_.aggregate.seconds)
      arguments.push_back(fmt::format("--aggregate-seconds={}", *options_.aggregate.seconds));
    RIVULET_ASSIGN_OR_RETURN(coordinator_, ChildProcess::Start(arguments));
    return absl::OkStatus();
  }

  Status StartClient(Client& client) {
    std::vector<std::string> arguments = client.arguments;
    arguments.push_back("--coordinator=" + address_);
    client.last_error.clear();
    RIVULET_ASSIGN_OR_RETURN(client.process, ChildProcess::Start(arguments));
    return absl::OkStatus();
  }

  // Watches until the coordinator and all clients have ended well; an error or Ctrl-C ends it sooner.
  Status Watch() {
    std::optional<SteadyClock::time_point> coordinator_ended;
    while (!interrupt_.happened()) {
      Wait(std::chrono::milliseconds(100));
      for (const std::string& line : coordinator_->StdoutLines()) RIVULET_RETURN_IF_ERROR(OnCoordinator(line));
      for (const std::string& line : coordinator_->StderrLines()) {
        coordinator_error_ = line;
        if (!line.starts_with("rivulet: ")) picture_.Note(line);
      }
      bool all_done = !clients_.empty();
      for (Client& client : clients_) {
        RIVULET_RETURN_IF_ERROR(Attend(client, coordinator_ended.has_value()));
        all_done = all_done && client.done;
      }
      picture_.Draw(clients_);
      if (!coordinator_ended && coordinator_->stdout_fd() < 0 && coordinator_->stderr_fd() < 0) {
        const std::optional<int> code = coordinator_->Exited();
        if (!code) continue;
        if (*code < 0) return Internal("the coordinator was killed by signal {}", -*code);
        if (*code > 0) return ChildError(coordinator_error_, "the coordinator failed", *code);
        coordinator_ended = SteadyClock::now();
      }
      // A run that was finished before starts no client.
      if (coordinator_ended && (all_done || address_.empty())) return absl::OkStatus();
      if (coordinator_ended && SteadyClock::now() - *coordinator_ended > std::chrono::seconds(5))
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  void Wait(std::chrono::milliseconds timeout) {
    std::vector<pollfd> ends = {{interrupt_.fd(), POLLIN, 0}};
    const auto add = [&](const ChildProcess* process) {
      if (process == nullptr) return;
      for (const int fd : {process->stdout_fd(), process->stderr_fd()}) {
        if (fd >= 0) ends.push_back({fd, POLLIN, 0});
      }
    };
    add(coordinator_.get());
    for (const Client& client : clients_) add(client.process.get());
    poll(ends.data(), ends.size(), static_cast<int>(timeout.count()));
  }

  Status OnCoordinator(const std::string& line) {
    const Json event = EventOf(line);
    if (!event.IsObject()) return absl::OkStatus();
    const std::string kind = event.At("event").text();
    if (kind == "listening") {
      address_ = event.At("address").text();
      run_id_ = event.At("run_id").text();
      for (Client& client : clients_) RIVULET_RETURN_IF_ERROR(StartClient(client));
    } else if (kind == "progress") {
      picture_.Progress(event.At("folded").integer(), event.At("selected").integer());
    } else if (kind == "round") {
      picture_.Round(event);
    } else if (kind == "evaluation") {
      picture_.Evaluation(event);
    } else if (kind.empty() && event.Contains("run_id")) {
      run_id_ = event.At("run_id").text();  // the result
    }
    return absl::OkStatus();
  }

  void OnClient(Client& client, const std::string& line) {
    const Json event = EventOf(line);
    const std::string kind = event.At("event").text();
    const int64_t round = event.At("round").integer();
    const bool trains = TextOr(event.At("kind"), "train") == "train";
    if (kind == "task") {
      client.state = fmt::format("round {}: {}", round, trains ? "training" : "measuring");
    } else if (kind == "report") {
      const std::string status = event.At("status").text();
      if (status == "accepted" && trains) ++client.folded;
      client.state = fmt::format("round {}: {}", round, status);
      if (const std::string error = event.At("error").text(); !error.empty()) {
        client.state += ": " + error;
        picture_.Note(fmt::format("{}: {}", client.name, client.state));
      }
    } else if (kind == "wait") {
      client.state = "waiting";
    } else if (kind == "retry") {
      client.state = "waiting for the coordinator";
    } else if (kind == "finished") {
      client.state = TextOr(event.At("status"), "finished");
    }
  }

  // Exits are checked only after the output has ended, so a child's last lines are read before its end is reported.
  Status Attend(Client& client, bool run_over) {
    if (client.process == nullptr || client.done) return absl::OkStatus();
    for (const std::string& line : client.process->StdoutLines()) OnClient(client, line);
    for (const std::string& line : client.process->StderrLines()) client.last_error = line;
    if (client.process->stdout_fd() >= 0) return absl::OkStatus();
    const std::optional<int> code = client.process->Exited();
    if (!code) return absl::OkStatus();
    // It reports that the run has failed; so does the coordinator, whose message is awaited.
    if (*code > 0 && client.state == "failed") {
      client.done = true;
      return absl::OkStatus();
    }
    if (*code > 0) return ChildError(client.last_error, fmt::format("client '{}' failed", client.name), *code);
    if (*code == 0 || run_over) {
      client.done = true;
      return absl::OkStatus();
    }
    // Killed: its task waits for it, and it returns as it would on a separate machine.
    constexpr int kMostRestarts = 10;
    if (++client.restarts > kMostRestarts) {
      return Internal("client '{}' was killed {} times, last by signal {}", client.name, client.restarts, -*code);
    }
    picture_.Note(fmt::format("client '{}' was killed by signal {}; starting it again", client.name, -*code));
    client.state = "starting again";
    return StartClient(client);
  }

  // The child's last line, which has the best message, with its kind of failure.
  static Status ChildError(std::string line, const std::string& otherwise, int code) {
    if (line.starts_with("rivulet: ")) line = line.substr(9);
    const Status status = Internal("{}", line.empty() ? fmt::format("{} with code {}", otherwise, code) : line);
    return code == 2 ? AsUsageError(status) : status;
  }

  // Clients first leave a coordinator that still answers; processes that do not end within seconds are killed.
  void StopAll() {
    std::vector<ChildProcess*> running;
    for (Client& client : clients_) {
      if (client.process != nullptr) running.push_back(client.process.get());
    }
    if (coordinator_ != nullptr) running.push_back(coordinator_.get());
    for (ChildProcess* process : running) {
      if (!process->Exited()) process->Signal(SIGTERM);
    }
    const auto give_up = SteadyClock::now() + std::chrono::seconds(15);  // a commit is finished first
    for (ChildProcess* process : running) {
      while (!process->Exited() && SteadyClock::now() < give_up) {
        pollfd ends[2] = {{process->stdout_fd(), POLLIN, 0}, {process->stderr_fd(), POLLIN, 0}};
        poll(ends, 2, 20);
        (void)process->StdoutLines();  // a full pipe would block it
        (void)process->StderrLines();
      }
    }
    clients_.clear();  // kills the rest
    coordinator_.reset();
  }

  const UpOptions& options_;
  const std::string folder_;
  int certified_ = 0;
  Interrupt interrupt_;
  UpPicture picture_;
  std::unique_ptr<ChildProcess> coordinator_;
  std::string coordinator_error_, address_, run_id_;
  std::deque<Client> clients_;
};

Status Up(UpOptions options) {
  options.run.sets.push_back(fmt::format("data.partition.clients={}", *options.clients));
  RIVULET_ASSIGN_OR_RETURN(Scenario scenario, LoadScenario(options.run, options.aggregate));
  if (const Status graph = RequireGraph(scenario); !graph.ok()) return AsUsageError(graph);
  RIVULET_RETURN_IF_ERROR(PrepareDataHere(scenario));
  RunSetup setup(std::move(scenario));
  RIVULET_ASSIGN_OR_RETURN(const auto data, setup.training_data());
  RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
  RIVULET_ASSIGN_OR_RETURN(const std::unique_ptr<UpFolder> folder, UpFolder::Create());
  RIVULET_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                           WritePartitionFiles(FileSystem::Default(), *data, *shares, folder->path()));
  const StatusOr<std::shared_ptr<Population>> members = RunMembers(setup.scenario(), *shares);
  if (!members.ok()) return AsUsageError(members.status());
  if ((*members)->size() < shares->size() && setup.scenario().server.min_clients == 0) {
    options.run.sets.push_back(fmt::format("server.min_clients={}", (*members)->size()));
  }
  Deployment deployment(options, setup.scenario().run.rounds, folder->path());
  const DataConfig& config = setup.scenario().data;
  return deployment.Run(*shares, files, config.name, **members, config.partition);
}

const RegisterCommand kUp(15, [] {
  auto options = std::make_shared<UpOptions>();
  Command command{.name = "up",
                  .summary = "Run a coordinator and clients as processes on this machine.",
                  .example =
                      "rivulet up quickstart --clients 4 "
                      "--set server.clients_per_round=2"};
  AddScenarioOptions(command, &options->run);
  AddAggregateOptions(command, &options->aggregate);
  command.Required("--clients", "N", &options->clients, "client processes, each with its share of the data", {1, 1000});
  command.Flag("--json", &options->json, "print the result as one JSON object");
  command.run = [options] { return Up(*options); };
  return command;
});

}  // namespace
}  // namespace rivulet
