// Tracer interface: receives the spans of a run with their times and threads. Traceable code holds a Tracer*, which is
// null without a trace. Tracing changes no result.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/profile/run_recorder.h"

namespace rivulet {

struct TraceArg {
  std::string_view name;
  std::variant<int64_t, double, std::string_view> value;
};
using TraceArgs = std::initializer_list<TraceArg>;

// A row of the display: the calling thread's, or one made by Tracer::Row.
struct TraceRow {
  int process = 0, thread = 0;  // both 0: the calling thread's row
};

// Thread-safe. Times are ProfileNanos. Calls never fail or wait for long; events that cannot be written are dropped.
class Tracer {
 public:
  virtual ~Tracer() = default;

  // Names the calling thread's row.
  virtual void NameThread(std::string_view name) = 0;
  // Returns the row `name` in the group `process` ("clients"), shown beside the threads; created at the first call. The
  // number of rows is limited: beyond the limit, all names share one row, "others".
  virtual TraceRow Row(std::string_view process, std::string_view name) = 0;

  // Adds a span from `begin` to `end`. Spans of one row must be nested or disjoint.
  virtual void Complete(TraceRow row, std::string_view category, std::string_view name, int64_t begin, int64_t end,
                        std::span<const TraceArg> args) = 0;
  virtual void Instant(TraceRow row, std::string_view category, std::string_view name,
                       std::span<const TraceArg> args) = 0;
  // Sets the counter `name` to `value`.
  virtual void Counter(std::string_view name, double value) = 0;
  // Adds an arrow from the span around kStart, through those around kStep, to that around kEnd. `id` names the arrow.
  enum class Flow { kStart, kStep, kEnd };
  static constexpr char kTask[] = "task";  // a task's arrow: from its offer over its training to its aggregation
  virtual void Arrow(TraceRow row, Flow flow, std::string_view name, std::string_view id) = 0;
};

// A span of the calling thread, from construction to destruction.
//
//   TraceSpan span(tracer, "phase", "upload");
//   span.Arg("bytes", size);
class TraceSpan {
 public:
  TraceSpan(Tracer* tracer, std::string_view category, std::string_view name)  // names must outlive the span
      : tracer_(tracer), category_(category), name_(name), begin_(tracer == nullptr ? 0 : ProfileNanos()) {}
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() { End(); }

  void Arg(std::string_view name, int64_t value) { Add(name, value); }
  void Arg(std::string_view name, double value) { Add(name, value); }
  void Arg(std::string_view name, std::string_view value) {
    if (tracer_ != nullptr) Add(name, std::string(value));
  }
  void Arrow(Tracer::Flow flow, std::string_view name, std::string_view id) {
    if (tracer_ != nullptr) tracer_->Arrow({}, flow, name, id);
  }
  // Ends the span before the destructor does. Further calls do nothing.
  void End() {
    if (tracer_ == nullptr) return;
    std::vector<TraceArg> args;
    for (const auto& [name, value] : args_) {
      TraceArg& arg = args.emplace_back(TraceArg{name, int64_t{0}});
      if (const auto* text = std::get_if<std::string>(&value)) {
        arg.value = std::string_view(*text);
      } else if (const auto* real = std::get_if<double>(&value)) {
        arg.value = *real;
      } else {
        arg.value = std::get<int64_t>(value);
      }
    }
    std::exchange(tracer_, nullptr)->Complete({}, category_, name_, begin_, ProfileNanos(), args);
  }

 private:
  using Value = std::variant<int64_t, double, std::string>;
  template <typename T>
  void Add(std::string_view name, T value) {
    if (tracer_ != nullptr) args_.emplace_back(name, std::move(value));
  }

  Tracer* tracer_;
  std::string_view category_, name_;
  int64_t begin_;
  std::vector<std::pair<std::string_view, Value>> args_;
};

}  // namespace rivulet
