// A trace in the Trace Event Format, for chrome://tracing and https://ui.perfetto.dev: a JSON array of events, one per
// line, written as they happen. The format permits an array without its end, so the file is always valid, also after
// the process is killed.
//
// Events: "X" rounds, tasks, phases, steps and ops; "i" instant events; "s" "t" "f" arrows; "C" counters; "M" names of
// processes and threads. An op's arguments name the kernel's symbol, implementation, op, node and layer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/file_system.h"
#include "engine/profile/step_monitor.h"
#include "engine/profile/tracer.h"

namespace rivulet {

struct TraceFileOptions {
  std::string process = "rivulet";  // displayed name
  int64_t limit_bytes = int64_t{256} << 20;
  // Ops take most of the space. Once this share of the limit is used, ops are omitted.
  double detail_share = 0.5;
};

// Thread-safe. Memory: 256 KiB of unwritten events, and a few hundred bytes per instruction of the programs seen.
class TraceFile : public Tracer, public RunSink {
 public:
  // Returns the errors of FileSystem::Create.
  static StatusOr<std::unique_ptr<TraceFile>> Create(FileSystem& fs, const std::string& path,
                                                     TraceFileOptions options = {});
  // Writes the end. Returns the first write error, if any. Later events are ignored.
  virtual Status Close() = 0;
  // Returns a sentence about omitted events; "" if there are none.
  virtual std::string Shortened() const = 0;
};

}  // namespace rivulet
