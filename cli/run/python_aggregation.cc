#include "cli/run/python_aggregation.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "cli/shell_quote.h"
#include "coordinator/history/history.h"
#include "engine/base/file_system.h"
#include "engine/base/json.h"

namespace rivulet {
namespace {

constexpr int64_t kCallSeconds = 600;
constexpr int64_t kStartMs = 120'000;  // an import of a large framework from a slow disk
constexpr std::string_view kPickleEnding = ".pickle";
constexpr char kPythonVariable[] = "RIVULET_PYTHON";

using SteadyClock = std::chrono::steady_clock;

// The file for the process's answer.
class AnswerFile {
 public:
  static StatusOr<AnswerFile> Create(size_t bytes) {
    AnswerFile file(memfd_create("rivulet-aggregate", MFD_CLOEXEC));
    if (file.fd_ < 0 || ftruncate(file.fd_, static_cast<off_t>(bytes)) != 0)
      return ResourceExhausted("no memory for an aggregate of {} bytes: {}", bytes, std::strerror(errno));
    return file;
  }
  AnswerFile(AnswerFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  AnswerFile& operator=(AnswerFile&&) = delete;
  ~AnswerFile() {
    if (fd_ >= 0) close(fd_);
  }

  std::string path() const { return fmt::format("/proc/{}/fd/{}", getpid(), fd_); }
  Status Read(std::span<std::byte> bytes) const {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t got = pread(fd_, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return Internal("the aggregation's answer cannot be read: {}", std::strerror(errno));
      at += static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

 private:
  explicit AnswerFile(int fd) : fd_(fd) {}
  int fd_;
};

std::string PythonInterpreter() {
  const char* const named = std::getenv(kPythonVariable);
  return named != nullptr && *named != '\0' ? named : "python3";
}

// The process's answer to a call: OK, or its error.
Status StatusOfAnswer(const std::string& line) {
  const StatusOr<Json> answer = Json::Parse(line);
  if (!answer.ok()) return Internal("the aggregation's process answered '{}'", Shortened(line));
  const Json* const error = answer->Find("error");
  return error == nullptr ? absl::OkStatus() : InvalidArgument("{}", OneLine(error->text()));
}

}  // namespace

void AddAggregateOptions(Command& command, AggregateOptions* options) {
  command
      .Option("--aggregate", "MODULE:FUNCTION", &options->function,
              "aggregate updates by a function in Python (docs/guide/python.md) [as the algorithm says]")
      .Option("--aggregate-seconds", "N", &options->seconds,
              fmt::format("fail a round whose aggregation lasts longer [{}]", kCallSeconds), {1, 1'000'000});
}

std::string ShellArguments(const AggregateOptions& options) {
  std::string text;
  if (!options.function.empty()) text += " --aggregate " + ShellQuote(options.function);
  if (options.seconds) text += fmt::format(" --aggregate-seconds {}", *options.seconds);
  return text;
}

StatusOr<Scenario> LoadScenario(const ScenarioOptions& options, const AggregateOptions& aggregate) {
  if (aggregate.function.empty()) {
    if (aggregate.seconds) return UsageError("--aggregate-seconds is of --aggregate; give both");
    RIVULET_ASSIGN_OR_RETURN(Scenario scenario, LoadScenario(options));
    if (scenario.algorithm.name != kExternalRule) return scenario;
    const auto named = scenario.algorithm.settings.find("function");
    return UsageError("the run's updates are aggregated by a function in Python{}; give --aggregate MODULE:FUNCTION",
                      named == scenario.algorithm.settings.end() ? "" : ", " + ToToml(named->second));
  }
  ScenarioOptions external = options;
  external.resume = "";
  RIVULET_ASSIGN_OR_RETURN(const Scenario given, LoadScenario(external));
  if (given.algorithm.name != "fedavg" && given.algorithm.name != kExternalRule) {
    return UsageError(
        "--aggregate would replace the aggregation of [algorithm] name = \"{}\"; leave the name out, or set "
        "algorithm.name=external",
        given.algorithm.name);
  }
  external.resume = options.resume;
  external.sets.emplace_back(fmt::format("algorithm.name=\"{}\"", kExternalRule));
  // The name of a pickled function is given separately.
  if (!aggregate.function.ends_with(kPickleEnding))
    external.sets.emplace_back(fmt::format("algorithm.function={}", TomlString(aggregate.function)));
  return LoadScenario(external);
}

Status CheckFunctionOfPlan(const Scenario& scenario, const AggregateOptions& aggregate) {
  if (scenario.algorithm.name != kExternalRule) {
    if (aggregate.function.empty()) return absl::OkStatus();
    return UsageError(
        "the plan aggregates by [algorithm] name = \"{}\"; leave --aggregate, or build the plan with "
        "algorithm.name=external",
        scenario.algorithm.name);
  }
  const auto named = scenario.algorithm.settings.find("function");
  const std::string function = named == scenario.algorithm.settings.end() ? "" : std::get<std::string>(named->second);
  if (aggregate.function.empty())
    return UsageError("the plan's updates are aggregated by a function in Python; give --aggregate {}",
                      function.empty() ? "MODULE:FUNCTION" : ShellQuote(function));
  if (!function.empty() && function != aggregate.function)
    return UsageError("the plan names the function '{}', and --aggregate is {}", function, aggregate.function);
  return absl::OkStatus();
}

Status RefuseSubmittedFunction(const std::string& scenario) {
  return FailedPrecondition(
      "the run's updates are aggregated by a function in Python, and a coordinator calls no function for submitted "
      "runs; "
      "start one for this run: rivulet coordinator {} --aggregate MODULE:FUNCTION --listen HOST:PORT",
      scenario);
}

PythonAggregation::PythonAggregation(const AggregateOptions& options)
    : function_(options.function), milliseconds_(options.seconds.value_or(kCallSeconds) * 1000) {}

PythonAggregation::~PythonAggregation() {
  MutexLock lock(mutex_);
  End();
}

StatusOr<std::shared_ptr<PythonAggregation>> PythonAggregation::Start(const AggregateOptions& options) {
  if (options.function.empty()) return nullptr;
  std::shared_ptr<PythonAggregation> aggregation(new PythonAggregation(options));
  MutexLock lock(aggregation->mutex_);
  RIVULET_RETURN_IF_ERROR(aggregation->Spawn());
  return aggregation;
}

Status PythonAggregation::Spawn() {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return Internal("no pipe for the aggregation's process: {}", std::strerror(errno));
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    return Internal("no pipe for the aggregation's process: {}", std::strerror(errno));
  }
  std::vector<std::string> words = {PythonInterpreter(), "-m", "rivulet._aggregate", function_};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = fork();
  const int error = errno;
  if (pid_ == 0) {
    setpgid(0, 0);  // this process handles the terminal's Ctrl-C, and commits complete work first
    std::signal(SIGPIPE, SIG_DFL);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  fcntl(from_, F_SETFL, O_NONBLOCK);
  if (pid_ < 0) {
    End();
    return Internal("the aggregation's process cannot be started: {}", std::strerror(error));
  }
  StatusOr<std::string> ready = Ask("", kStartMs);
  Status status = ready.ok() ? StatusOfAnswer(*ready) : ready.status();
  if (!status.ok()) End();
  return Annotate(status, fmt::format("--aggregate {}", function_));
}

void PythonAggregation::End() {
  if (to_ >= 0) close(std::exchange(to_, -1));
  if (from_ >= 0) close(std::exchange(from_, -1));
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
}

Status PythonAggregation::Lost() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  End();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    return NotFound("there is no program '{}'; the variable {} names another Python", PythonInterpreter(),
                    kPythonVariable);
  }
  return Aborted(
      "its process {}; its last words are above. It needs the package rivulet in '{}' ({} names another one)",
      WIFSIGNALED(status) ? fmt::format("was ended by signal {}", WTERMSIG(status))
                          : fmt::format("exited with {}", WEXITSTATUS(status)),
      PythonInterpreter(), kPythonVariable);
}

StatusOr<std::string> PythonAggregation::Ask(const std::string& line, int64_t milliseconds) {
  for (size_t at = 0; at < line.size();) {
    const ssize_t written = write(to_, line.data() + at, line.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Lost();
    at += static_cast<size_t>(written);
  }
  const auto deadline = SteadyClock::now() + std::chrono::milliseconds(milliseconds);
  std::string answer;
  while (!answer.ends_with('\n')) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    if (left <= 0) {
      End();
      return DeadlineExceeded("it did not answer within {} s; --aggregate-seconds allows it more", milliseconds / 1000);
    }
    pollfd ready{.fd = from_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(std::min<int64_t>(left, 60'000))) <= 0) continue;
    char bytes[4096];
    const ssize_t got = read(from_, bytes, sizeof bytes);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return Lost();
    answer.append(bytes, static_cast<size_t>(got));
  }
  return answer;
}

void PythonAggregation::BeginRun(const std::string& db, const std::string& run_id) {
  MutexLock lock(mutex_);
  run_id_ = run_id;
  std::error_code error;
  const std::string real = std::filesystem::canonical(db, error).string();
  const std::filesystem::path models = History::ModelsFolder(error ? db : real, run_id);
  folder_ = (std::filesystem::path(error ? db : real).parent_path() / models).string();
}

Status PythonAggregation::Aggregate(const ExternalRequest& request, std::span<float> out) {
  MutexLock lock(mutex_);
  if (pid_ < 0) RIVULET_RETURN_IF_ERROR(Spawn());  // it was lost in an earlier attempt
  RIVULET_ASSIGN_OR_RETURN(const AnswerFile answer, AnswerFile::Create(out.size_bytes()));
  Json updates = Json::Array();
  for (const ExternalRequest::Update& update : request.updates)
    updates.Append(
        {{"task", update.task}, {"weight", update.weight}, {"file", update.file}, {"offset", update.offset}});
  const Json call = {{"version", request.version},    {"part", request.part}, {"elements", request.elements},
                     {"updates", std::move(updates)}, {"folder", folder_},    {"run_id", run_id_},
                     {"out", answer.path()}};
  const StatusOr<std::string> line = Ask(call.Dump() + "\n", milliseconds_);
  RIVULET_RETURN_IF_ERROR(
      Annotate(line.ok() ? StatusOfAnswer(*line) : line.status(), fmt::format("--aggregate {}", function_)));
  return answer.Read(std::as_writable_bytes(out));
}

}  // namespace rivulet
