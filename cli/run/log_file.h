// Log file of a long-running process: one event a line, as text or JSON. At its size limit a new file begins, and a few
// older ones are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cli/command.h"
#include "engine/base/status.h"
#include "engine/base/table.h"

namespace rivulet {

struct LogOptions {
  std::string path;  // "": no log
  bool json = false;
  std::optional<int64_t> megabytes;  // of one file
};
// --log, --log-json and --log-megabytes.
void AddLogOptions(Command& command, LogOptions* options);

// An event's fields besides its message: "run_id", "round", "client_id", "task_id" and other counts. Nulls are left
// out.
struct LogEntry {
  std::string level = "info";  // info, warning, error
  std::string source;          // "round", "client", "security", …
  std::string message;
  Fields fields = {};
};

// A log file. Thread-safe. Lines that cannot be written, as on a full disk, are lost, and the next line is tried again:
// a log never ends any work. Mode 0600.
class LogFile {
 public:
  // Null without a path. Usage errors. FAILED_PRECONDITION: the file cannot be opened, with the reason.
  static StatusOr<std::shared_ptr<LogFile>> Open(const LogOptions& options);
  virtual ~LogFile() = default;
  virtual void Write(const LogEntry& entry) = 0;
};

}  // namespace rivulet
