// Inspection of a running `simulate`, `client` or `coordinator`: --trace, and a profile requested by `rivulet graph
// profile --attach`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/command.h"
#include "engine/base/status.h"
#include "engine/profile/profile_server.h"
#include "engine/profile/step_monitor.h"
#include "engine/profile/trace_file.h"

namespace rivulet {

struct TraceOptions {
  std::string file;
  std::optional<int64_t> megabytes;
};
// Declares --trace and --trace-megabytes.
void AddTraceOptions(Command& command, TraceOptions* options);

// Trace and profile server of a run, which it must outlive.
class Watching {
 public:
  // `process` names it in traces and profiles: "simulate quickstart". A trace file that cannot be created is an error;
  // a process that cannot be profiled from outside is none.
  static StatusOr<std::unique_ptr<Watching>> Start(const TraceOptions& options, const std::string& process);
  Instruments instruments() { return {trace_.get(), monitor_.get()}; }
  // Ends the trace, and reports missing parts on stderr. Returns the first error of writing it.
  Status Finish();

 private:
  std::unique_ptr<TraceFile> trace_;
  std::unique_ptr<ProfileServer> server_;
  std::unique_ptr<StepMonitor> monitor_;
};

}  // namespace rivulet
