// rivulet graph worker: a task of a cluster, for graphs that run over several processes.
#include "cli/graph/worker.h"

#include <poll.h>

#include <memory>

#include "cli/interrupt.h"
#include "cli/run/security.h"
#include "cli/terminal.h"
#include "dataflow/cluster/task_server.h"

namespace rivulet {
namespace {

struct WorkerArguments {
  std::string cluster, job;
  std::optional<int64_t> task, memory_mb, transfers_mb, threads;
  SecurityOptions security;
};

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
  RIVULET_ASSIGN_OR_RETURN(const auto server, TaskServer::Start(std::move(options)));
  Interrupt interrupt;
  fmt::print("{} serves grpc://{}\n", server->task().name(), server->task().address.ToString());
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
                      "--task 1 --tls task-b"};
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
              {.min = 1, .max = 1024});
  AddSecurityOptions(command, &arguments->security);
  command.run = [arguments] { return RunWorker(*arguments); };
  return command;
}

}  // namespace rivulet
