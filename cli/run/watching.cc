#include "cli/run/watching.h"

#include "cli/terminal.h"

namespace rivulet {

void AddTraceOptions(Command& command, TraceOptions* options) {
  command
      .Option("--trace", "FILE", &options->file,
              "write a trace for chrome://tracing or ui.perfetto.dev (docs/guide/profiling.md)")
      .Option("--trace-megabytes", "N", &options->megabytes,
              "limit of the trace's size; steps and ops stop at half of it [256]", {1, 1 << 20});
}

StatusOr<std::unique_ptr<Watching>> Watching::Start(const TraceOptions& options, const std::string& process) {
  auto watching = std::make_unique<Watching>();
  if (options.file.empty() && options.megabytes) return UsageError("--trace-megabytes needs --trace FILE");
  std::vector<RunSink*> sinks;
  if (!options.file.empty()) {
    RIVULET_ASSIGN_OR_RETURN(
        watching->trace_,
        TraceFile::Create(FileSystem::Default(), options.file,
                          {.process = process, .limit_bytes = options.megabytes.value_or(256) << 20}));
    sinks.push_back(watching->trace_.get());
  }
  if (auto server = ProfileServer::Start(process); server.ok()) {
    watching->server_ = *std::move(server);
    sinks.push_back(watching->server_.get());
  }
  watching->monitor_ = std::make_unique<StepMonitor>(std::move(sinks));
  return watching;
}

Status Watching::Finish() {
  server_.reset();
  if (trace_ == nullptr) return absl::OkStatus();
  const Status closed = trace_->Close();
  if (const std::string missing = trace_->Shortened(); !missing.empty() && closed.ok())
    PrintNote(missing, Note::kImportant);
  return closed;
}

}  // namespace rivulet
