// A trace in the Trace Event Format, which chrome://tracing and https://ui.perfetto.dev open: a JSON array of events,
// one per line, written as they happen. The format allows an array without its end, so the file is valid at every
// moment, also after the process is killed.
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
  std::string process = "rivulet";  // its name in the picture
  int64_t limit_bytes = int64_t{256} << 20;
  // Ops of every step take most room: when so much of the limit is used, only the rest is written.
  double detail_share = 0.5;
};

// Thread-safe. Memory: 256 KiB of events not yet written, and a few hundred bytes per instruction of the programs seen.
class TraceFile : public Tracer, public RunSink {
 public:
  // Errors of FileSystem::Create.
  static StatusOr<std::unique_ptr<TraceFile>> Create(FileSystem& fs, const std::string& path,
                                                     TraceFileOptions options = {});
  // Writes the end. The first error of writing, if there was one. What comes after is left out.
  virtual Status Close() = 0;
  // What is missing, as a sentence to print; "" when nothing is.
  virtual std::string Shortened() const = 0;
};

}  // namespace rivulet
