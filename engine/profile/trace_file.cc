#include "engine/profile/trace_file.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <vector>

#include "engine/profile/instruction_costs.h"

namespace rivulet {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;
constexpr int64_t kFlushNanos = 1'000'000'000;
constexpr int64_t kMemoryNanos = 5'000'000;  // between two looks at the process's memory
constexpr int64_t kClosingBytes = 8192;      // kept for the last events
constexpr size_t kPageBytes = 4096;
constexpr size_t kMaxRows = 1000;  // in each group
// Rows that are no threads: beyond any process or thread number of the system.
constexpr int kFirstRow = 1 << 23;

// `text` inside of quotes. Bytes that are no UTF-8 become '?', so that any name gives a valid file.
void AppendText(std::string& out, std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      const size_t length = c >= 0xF0 && c < 0xF5 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 && c < 0xE0 ? 2 : 0;
      bool valid = length > 0 && c < 0xF5 && i + length <= text.size();
      for (size_t k = 1; valid && k < length; ++k) valid = (static_cast<unsigned char>(text[i + k]) & 0xC0) == 0x80;
      if (valid && length >= 3) {
        // Overlong forms, surrogates and numbers beyond Unicode.
        const auto next = static_cast<unsigned char>(text[i + 1]);
        valid = !(c == 0xE0 && next < 0xA0) && !(c == 0xED && next >= 0xA0) && !(c == 0xF0 && next < 0x90) &&
                !(c == 0xF4 && next >= 0x90);
      }
      if (!valid) {
        out += '?';
        continue;
      }
      out.append(text, i, length);
      i += length - 1;
    }
  }
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  AppendText(out, text);
  return out + "\"";
}

// JSON has no infinities.
std::string Number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

void AppendArgs(std::string& out, std::span<const TraceArg> args) {
  out += "\"args\":{";
  bool first = true;
  for (const TraceArg& arg : args) {
    if (!std::exchange(first, false)) out += ',';
    out += Quoted(arg.name) + ":";
    if (const auto* text = std::get_if<std::string_view>(&arg.value)) {
      out += Quoted(*text);
    } else if (const auto* real = std::get_if<double>(&arg.value)) {
      out += Number(*real);
    } else {
      out += std::to_string(std::get<int64_t>(arg.value));
    }
  }
  out += '}';
}

std::string Micros(int64_t nanos) { return fmt::format("{}.{:03}", nanos / 1000, nanos % 1000); }

// This process's memory, in bytes; nothing where /proc does not tell.
std::optional<double> ResidentBytes() {
  const StatusOr<std::string> text = FileSystem::Default().ReadAll("/proc/self/statm");
  if (!text.ok()) return std::nullopt;
  long size = 0, resident = 0;
  if (std::sscanf(text->c_str(), "%ld %ld", &size, &resident) != 2) return std::nullopt;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// The file must be of use however the process ends, and must never end it. So it is written as whole events in the
// array form of the format, which viewers read without its closing bracket, and no event lies across the end of a page,
// where the system cuts off what a process that is killed was writing; a part of the limit is kept from steps and
// ops for what tells the course of the run; and a disk that is full ends the trace and nothing else.
class JsonTraceFile final : public TraceFile {
 public:
  JsonTraceFile(std::unique_ptr<WritableFile> file, std::string path, TraceFileOptions options)
      : file_(std::move(file)), path_(std::move(path)), options_(std::move(options)), pid_(getpid()) {
    MutexLock lock(mutex_);
    PutLocked("[\n");
    NameLocked("process_name", pid_, pid_, options_.process);
    Flush();
  }
  ~JsonTraceFile() override { Close().IgnoreError(); }

  void NameThread(std::string_view name) override {
    const int thread = gettid();
    MutexLock lock(mutex_);
    NameLocked("thread_name", pid_, thread, name);
  }

  // Bounded, as a run may have a million clients and a viewer draws each row.
  TraceRow Row(std::string_view process, std::string_view name) override {
    MutexLock lock(mutex_);
    auto group = groups_.find(process);
    if (group == groups_.end()) {
      group = groups_.emplace(std::string(process), Group{kFirstRow + static_cast<int>(groups_.size()), {}}).first;
      NameLocked("process_name", group->second.process, group->second.process, process);
    }
    const bool full = group->second.rows.size() >= kMaxRows;
    auto row = group->second.rows.find(name);
    if (row == group->second.rows.end() && full) row = group->second.rows.find(name = "others");
    if (row == group->second.rows.end()) {
      const int number = kFirstRow + static_cast<int>(kMaxRows) + static_cast<int>(group->second.rows.size());
      row = group->second.rows.emplace(std::string(name), number).first;
      NameLocked("thread_name", group->second.process, number, name);
    }
    return {group->second.process, row->second};
  }

  void Complete(TraceRow row, std::string_view category, std::string_view name, int64_t begin, int64_t end,
                std::span<const TraceArg> args) override {
    std::string event = Head('X', row, category, name, begin);
    event += fmt::format("\"dur\":{},", Micros(std::max<int64_t>(end - begin, 0)));
    AppendArgs(event, args);
    event += '}';
    Write(event);
    LookAtMemory();
  }

  void Instant(TraceRow row, std::string_view category, std::string_view name,
               std::span<const TraceArg> args) override {
    std::string event = Head('i', row, category, name, ProfileNanos());
    event += "\"s\":\"t\",";
    AppendArgs(event, args);
    event += '}';
    Write(event);
  }

  void Counter(std::string_view name, double value) override { Write(CounterEvent(name, ProfileNanos(), value)); }

  void Arrow(TraceRow row, Flow flow, std::string_view name, std::string_view id) override {
    const char phase = flow == Flow::kStart ? 's' : flow == Flow::kStep ? 't' : 'f';
    std::string event = Head(phase, row, "flow", name, ProfileNanos());
    event += "\"id\":" + Quoted(id);
    if (flow == Flow::kEnd) event += ",\"bp\":\"e\"";  // to the span around it, not to the next one
    event += '}';
    Write(event);
  }

  bool Wants() override { return MayWant(); }
  bool MayWant() const override { return !detail_over_.load(std::memory_order_relaxed); }

  // Formatting is done outside of the lock by the thread that ran the step, so that threads wait for each other only
  // while bytes are copied.
  void Take(const RecordedRun& run) override {
    std::vector<std::shared_ptr<const Lines>> lines_of_span;
    std::map<const Program*, std::shared_ptr<const Lines>> seen;
    for (const InstructionSpan& span : run.spans) {
      std::shared_ptr<const Lines>& lines = seen[span.program];
      if (lines == nullptr) lines = LinesOf(*span.program);
      lines_of_span.push_back(lines);
    }
    const int thread = gettid();
    const std::string counter = fmt::format("arena bytes (thread {})", thread);
    const std::string where = fmt::format("\"pid\":{},\"tid\":{},", pid_, thread);
    std::string text = fmt::format(
        "{{\"ph\":\"X\",\"cat\":\"step\",\"name\":\"step\",{}\"ts\":{},\"dur\":{},\"args\":{{\"calls\":{}}}}}", where,
        Micros(run.begin), Micros(run.end - run.begin), static_cast<int64_t>(run.spans.size()) + run.dropped);
    int64_t live = -1;
    for (size_t i = 0; i < run.spans.size(); ++i) {
      const InstructionSpan& span = run.spans[i];
      if (span.end == 0) continue;
      const Lines& lines = *lines_of_span[i];
      const size_t index = static_cast<size_t>(span.instruction);
      // An inner program has a separate arena.
      if (span.parent < 0 && lines.live_bytes[index] != live) {
        live = lines.live_bytes[index];
        text += ",\n" + CounterEvent(counter, span.begin, static_cast<double>(live));
      }
      text += fmt::format(",\n{{\"ph\":\"X\",{}\"ts\":{},\"dur\":{},{}", where, Micros(span.begin),
                          Micros(span.end - span.begin), lines.tails[index]);
    }
    text += ",\n" + CounterEvent(counter, run.end, 0);
    if (run.dropped > 0) dropped_calls_.fetch_add(run.dropped);
    Write(text, /*detail=*/true);
  }

  Status Close() override {
    MutexLock lock(mutex_);
    if (file_ == nullptr) return status_;
    PutLocked("\n]\n");
    Flush();
    const Status closed = file_->Close();
    if (status_.ok()) status_ = closed;
    file_.reset();
    return status_;
  }

  std::string Shortened() const override {
    MutexLock lock(mutex_);
    if (full_) {
      return fmt::format("{} has reached {} MB, and later events are missing; allow more with --trace-megabytes", path_,
                         options_.limit_bytes >> 20);
    }
    if (detail_over_) {
      return fmt::format(
          "{} has steps and ops up to {:.1f} s and rounds, tasks and phases alone after that; allow more than {} MB "
          "with --trace-megabytes",
          path_, static_cast<double>(detail_end_ - start_) * 1e-9, options_.limit_bytes >> 20);
    }
    const int64_t dropped = dropped_calls_.load();
    return dropped == 0 ? "" : fmt::format("{} calls of very long steps are not in {}", dropped, path_);
  }

 private:
  // The suffixes of the events of a program's instructions, and the arena's live bytes at each.
  struct Lines {
    std::shared_ptr<const Program> program;
    std::vector<std::string> tails;
    std::vector<int64_t> live_bytes;
  };
  struct Group {
    int process = 0;
    std::map<std::string, int, std::less<>> rows;
  };

  std::string Head(char phase, TraceRow row, std::string_view category, std::string_view name, int64_t time) const {
    const bool own = row.process == 0;
    std::string event = fmt::format("{{\"ph\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"cat\":", phase,
                                    own ? pid_ : row.process, own ? gettid() : row.thread, Micros(time));
    return event + Quoted(category) + ",\"name\":" + Quoted(name) + ",";
  }

  std::string CounterEvent(std::string_view name, int64_t time, double value) const {
    return fmt::format("{{\"ph\":\"C\",\"pid\":{},\"tid\":{},\"ts\":{},\"name\":{},\"args\":{{\"value\":{}}}}}", pid_,
                       pid_, Micros(time), Quoted(name), Number(value));
  }

  // All that an instruction's events say alike is made once per program; per event only times are formatted.
  std::shared_ptr<const Lines> LinesOf(const Program& program) {
    {
      MutexLock lock(mutex_);
      const auto found = lines_.find(&program);
      if (found != lines_.end()) return found->second;
    }
    auto lines = std::make_shared<Lines>();
    lines->program = program.shared_from_this();
    const std::vector<InstructionCost> costs = CostsOf(program);
    for (size_t i = 0; i < costs.size(); ++i) {
      const Instruction& instruction = program.instructions()[i];
      const InstructionCost& cost = costs[i];
      std::string tail = "\"cat\":\"op\",\"name\":" + Quoted(instruction.op) + ",";
      AppendArgs(tail, std::initializer_list<TraceArg>{{"kernel", std::string_view(cost.kernel)},
                                                       {"implementation", std::string_view(instruction.implementation)},
                                                       {"op", std::string_view(instruction.op)},
                                                       {"node", std::string_view(instruction.node)},
                                                       {"layer", std::string_view(cost.layer)},
                                                       {"shapes", std::string_view(cost.shapes)},
                                                       {"flops", cost.flops},
                                                       {"bytes", cost.bytes}});
      lines->tails.push_back(tail + "}");
      lines->live_bytes.push_back(cost.live_bytes);
    }
    MutexLock lock(mutex_);
    return lines_.emplace(&program, std::move(lines)).first->second;
  }

  void NameLocked(std::string_view what, int process, int thread, std::string_view name) REQUIRES(mutex_) {
    WriteLocked(fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"ts\":0,\"name\":\"{}\",\"args\":{{\"name\":{}}}}}",
                            process, thread, what, Quoted(name)),
                false);
  }

  void Write(const std::string& event, bool detail = false) {
    MutexLock lock(mutex_);
    WriteLocked(event, detail);
  }

  // Whole events, with the separators between them.
  void WriteLocked(const std::string& events, bool detail) REQUIRES(mutex_) {
    if (file_ == nullptr || full_) return;
    const auto added = static_cast<int64_t>(events.size() + events.size() / 8) + 2;  // some blanks in it
    const auto limit = static_cast<double>(options_.limit_bytes);
    if (detail && static_cast<double>(bytes_ + added) > limit * options_.detail_share) {
      if (!detail_over_.exchange(true)) detail_end_ = ProfileNanos();
      return;
    }
    if (bytes_ + added + kClosingBytes > options_.limit_bytes) {
      full_ = true;
      detail_over_ = true;
      PutLocked(fmt::format(
          ",\n{{\"ph\":\"i\",\"pid\":{},\"tid\":{},\"ts\":{},\"s\":\"g\",\"cat\":\"trace\",\"name\":\"the trace has "
          "reached its limit\",\"args\":{{}}}}",
          pid_, pid_, Micros(ProfileNanos())));
      Flush();
      return;
    }
    if (bytes_ > 2) PutLocked(",\n");
    PutLocked(events);
    // At least once a second, so that a process that is killed leaves a trace up to its last second.
    const int64_t now = ProfileNanos();
    if (buffer_.size() >= kBufferBytes || now - flushed_ > kFlushNanos) Flush();
  }

  // Lines, with blanks before one that would lie across the end of a page of the file.
  void PutLocked(std::string_view text) REQUIRES(mutex_) {
    const size_t before = buffer_.size();
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      const size_t at = static_cast<size_t>(bytes_) + (buffer_.size() - before);
      const size_t length = end - begin, left = kPageBytes - at % kPageBytes;
      if (length > left && length <= kPageBytes) buffer_.append(left, ' ');
      buffer_.append(text, begin, length);
    }
    bytes_ += static_cast<int64_t>(buffer_.size() - before);
  }

  void Flush() REQUIRES(mutex_) {
    flushed_ = ProfileNanos();
    if (file_ == nullptr || buffer_.empty()) return;
    if (status_.ok()) status_ = file_->Append(std::string_view(buffer_));
    buffer_.clear();
    if (!status_.ok()) full_ = true;
  }

  void LookAtMemory() {
    const int64_t now = ProfileNanos();
    int64_t last = memory_seen_.load(std::memory_order_relaxed);
    if (now - last < kMemoryNanos || !memory_seen_.compare_exchange_strong(last, now)) return;
    if (const std::optional<double> bytes = ResidentBytes()) Counter("resident bytes", *bytes);
  }

  std::unique_ptr<WritableFile> file_;
  const std::string path_;
  const TraceFileOptions options_;
  const int pid_;
  const int64_t start_ = ProfileNanos();
  std::atomic<bool> detail_over_ = false;
  std::atomic<int64_t> dropped_calls_ = 0;
  std::atomic<int64_t> memory_seen_ = 0;
  mutable Mutex mutex_;
  std::string buffer_ GUARDED_BY(mutex_);
  int64_t bytes_ GUARDED_BY(mutex_) = 0;  // of the file and the buffer
  int64_t flushed_ GUARDED_BY(mutex_) = 0;
  int64_t detail_end_ GUARDED_BY(mutex_) = 0;
  bool full_ GUARDED_BY(mutex_) = false;
  Status status_ GUARDED_BY(mutex_);
  std::map<std::string, Group, std::less<>> groups_ GUARDED_BY(mutex_);
  std::map<const Program*, std::shared_ptr<const Lines>> lines_ GUARDED_BY(mutex_);
};

}  // namespace

StatusOr<std::unique_ptr<TraceFile>> TraceFile::Create(FileSystem& fs, const std::string& path,
                                                       TraceFileOptions options) {
  RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.Create(path));
  return std::make_unique<JsonTraceFile>(std::move(file), path, std::move(options));
}

}  // namespace rivulet
