// rivulet graph worker: a task of a cluster, for graphs that run over several processes.
#include "cli/graph/worker.h"

#include <poll.h>

#include <memory>

#include "cli/interrupt.h"
#include "cli/run/client_options.h"
#include "cli/run/security.h"
#include "cli/terminal.h"
#include "dataflow/cluster/task_server.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/rate_limited_log.h"
#include "engine/data/dataset.h"

namespace rivulet {
namespace {

struct WorkerArguments {
  std::string cluster, job;
  std::optional<int64_t> task, memory_mb, transfers_mb, threads;
  std::vector<std::string> data;  // NAME=GLOB
  std::string send;
  SecurityOptions security;
};

// The owner's data, and the tensors that may leave the task.
Status BindOwnersData(const WorkerArguments& arguments, GraphWorkerOptions* options) {
  RIVULET_ASSIGN_OR_RETURN(const auto bound, BoundFilesOf(arguments.data));
  for (const auto& [name, paths] : bound) {
    std::vector<std::shared_ptr<const Dataset>> files;
    for (const std::string& path : paths) {
      RIVULET_ASSIGN_OR_RETURN(files.emplace_back(), Dataset::Open({path}));
    }
    options->data.emplace_back(name, std::move(files));
  }
  if (arguments.send.empty()) return absl::OkStatus();
  RIVULET_ASSIGN_OR_RETURN(const std::string text, FileSystem::Default().ReadAll(arguments.send));
  StatusOr<SendList> listed = ParseSendList(text);
  if (!listed.ok()) return AsUsageError(Annotate(listed.status(), fmt::format("--send {}", arguments.send)));
  options->send = *std::move(listed);
  return absl::OkStatus();
}

Status RunWorker(const WorkerArguments& arguments) {
  StatusOr<ClusterSpec> cluster = ClusterSpec::Parse(arguments.cluster);
  if (!cluster.ok()) return AsUsageError(Annotate(cluster.status(), "--cluster"));
  TaskServerOptions options;
  options.cluster = *std::move(cluster);
  options.job = arguments.job;
  options.task = static_cast<int>(*arguments.task);
  const StatusOr<ClusterTask> task = options.cluster.Task(options.job, options.task);
  if (!task.ok()) return AsUsageError(Annotate(task.status(), "--job and --task"));
  const auto tell = [](const std::string& sentence) { PrintNote(sentence, Note::kImportant); };
  RIVULET_ASSIGN_OR_RETURN(const Security security, SecurityOf(arguments.security, kTaskRole, task->address, "", tell));
  options.credentials = security.credentials;
  for (const ClusterTask& other : options.cluster.tasks())
    RIVULET_RETURN_IF_ERROR(AsUsageError(
        Annotate(security.credentials->Check(other.address), fmt::format("the cluster's '{}'", other.name()))));
  constexpr size_t kMegabyte = 1'000'000;
  options.worker.memory_limit_bytes = static_cast<size_t>(arguments.memory_mb.value_or(0)) * kMegabyte;
  options.worker.parked_bytes = static_cast<size_t>(arguments.transfers_mb.value_or(1000)) * kMegabyte;
  options.worker.threads = static_cast<int>(arguments.threads.value_or(0));
  RIVULET_RETURN_IF_ERROR(BindOwnersData(arguments, &options.worker));
  // Steps may end after the server has.
  const auto failures = std::make_shared<RateLimitedLog>(tell);
  options.worker.withheld = [failures](const std::string& message) { failures->Tell(message); };
  const bool sends_all = options.worker.data.empty() && !options.worker.send;
  const std::string sends = Join(options.worker.send.value_or(SendList()), ", ");
  RIVULET_ASSIGN_OR_RETURN(const auto server, TaskServer::Start(std::move(options)));
  Interrupt interrupt;
  fmt::print("{} serves grpc://{}\n", server->task().name(), server->task().address.ToString());
  if (!sends_all) fmt::print("sends {}\n", sends.empty() ? "no tensor" : sends);
  std::fflush(stdout);
  while (!interrupt.happened()) {
    pollfd interrupted{interrupt.fd(), POLLIN, 0};
    poll(&interrupted, 1, -1);
  }
  server->Stop(std::chrono::seconds(1));
  return absl::OkStatus();
}

}  // namespace

Command GraphWorkerCommand() {
  auto arguments = std::make_shared<WorkerArguments>();
  Command command{.name = "worker",
                  .summary = "Run a task of a cluster, for graphs over several processes.",
                  .example =
                      "rivulet graph worker --cluster \"ps=127.0.0.1:2222;worker=127.0.0.1:2223\" --job ps --task 0 "
                      "--insecure\n  "
                      "rivulet graph worker --cluster \"worker=a.example.com:2222,b.example.com:2222\" --job worker "
                      "--task 1 --tls task-b\n  "
                      "rivulet graph worker --cluster \"guest=127.0.0.1:2222;host=127.0.0.1:2223\" --job host --task 0 "
                      "--insecure --data 'features=records/*.tfrecord' --send activations.txt"};
  command
      .Required("--cluster", "JOB=HOST:PORT,…;…", &arguments->cluster,
                "set the addresses of all tasks, the same for each of them")
      .Required("--job", "JOB", &arguments->job, "set the job of this task")
      .Required("--task", "N", &arguments->task, "set the number of this task in its job, counted from 0",
                {.min = 0, .max = 1023})
      .Option("--memory-mb", "N", &arguments->memory_mb,
              "limit variables, queues and working memory to this many megabytes [no limit]",
              {.min = 1, .max = 1 << 24})
      .Option("--transfers-mb", "N", &arguments->transfers_mb,
              "limit tensors that wait for another task to this many megabytes [1000]", {.min = 1, .max = 1 << 24})
      .Option("--threads", "N", &arguments->threads, "set the threads that run parts of steps [one a core]",
              {.min = 1, .max = 1024})
      .Repeated("--data", "NAME=GLOB", &arguments->data,
                "bind TFRecord files to a name for graphs (BoundDataset); repeatable")
      .Option(
          "--send", "FILE", &arguments->send,
          "let only those tensors leave that this file lists, one a line; gradients and fetches count too [any; none "
          "with --data]");
  AddSecurityOptions(command, &arguments->security);
  command.run = [arguments] { return RunWorker(*arguments); };
  return command;
}

}  // namespace rivulet
