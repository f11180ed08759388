#include "cli/run/log_file.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <sys/stat.h>

#include <cstdio>
#include <utility>
#include <variant>

namespace rivulet {
namespace {

constexpr int64_t kMegabytes = 10;
constexpr size_t kOlderFiles = 5;

std::string Text(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* real = std::get_if<double>(&cell)) return fmt::format("{:.6g}", *real);
  if (const auto* number = std::get_if<int64_t>(&cell)) return fmt::format("{}", *number);
  return std::get<bool>(cell) ? "true" : "false";
}

class RotatingLog final : public LogFile {
 public:
  RotatingLog(std::shared_ptr<spdlog::sinks::sink> sink, bool json) : logger_("rivulet", std::move(sink)), json_(json) {
    constexpr char kText[] = "%Y-%m-%dT%H:%M:%S.%eZ %v", kJson[] = R"({"at":"%Y-%m-%dT%H:%M:%S.%eZ",%v)";
    logger_.set_pattern(json ? kJson : kText, spdlog::pattern_time_type::utc);
    logger_.flush_on(spdlog::level::info);
    // The library would print its own messages about failed writes to stderr, a line a second.
    logger_.set_error_handler([](const std::string&) {});
  }

  void Write(const LogEntry& entry) override {
    Fields told;
    for (const auto& field : entry.fields) {
      if (!std::holds_alternative<std::monostate>(field.second)) told.push_back(field);
    }
    std::string line;
    if (json_) {
      told.insert(told.begin(), {{"level", entry.level}, {"source", entry.source}, {"message", entry.message}});
      line = JsonObject(told).substr(1);  // its opening brace is before the time
    } else {
      line = fmt::format("{} {}: {}", entry.level, entry.source, OneLine(entry.message));
      for (const auto& [name, cell] : told) line += fmt::format(" {}={}", name, OneLine(Text(cell)));
    }
    logger_.info("{}", line);
  }

 private:
  spdlog::logger logger_;
  const bool json_;
};

}  // namespace

void AddLogOptions(Command& command, LogOptions* options) {
  command
      .Option("--log", "FILE", &options->path,
              "write events to this file too, one a line; full files are kept as FILE.1, FILE.2, …")
      .Flag("--log-json", &options->json, "write JSON objects, with run, round, client and task as fields")
      .Option("--log-megabytes", "N", &options->megabytes,
              fmt::format("size at which a new file begins; {} older ones are kept [{}]", kOlderFiles, kMegabytes),
              {1, 4096});
}

StatusOr<std::shared_ptr<LogFile>> LogFile::Open(const LogOptions& options) {
  if (options.path.empty()) {
    if (options.json) return UsageError("--log-json needs a log; give --log FILE too");
    if (options.megabytes) return UsageError("--log-megabytes needs a log; give --log FILE too");
    return std::shared_ptr<LogFile>();
  }
  struct stat info {};
  if (stat(options.path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return FailedPrecondition("'{}' is no regular file, and cannot start over when it is full; give --log another",
                              options.path);
  }
  const size_t bytes = static_cast<size_t>(options.megabytes.value_or(kMegabytes)) * 1'000'000;
  // The names of clients and their faults must not be readable by other users of the machine.
  spdlog::file_event_handlers handlers;
  handlers.after_open = [](const spdlog::filename_t&, std::FILE* file) { (void)fchmod(fileno(file), 0600); };
  try {
    return std::make_shared<RotatingLog>(
        std::make_shared<spdlog::sinks::rotating_file_sink_mt>(options.path, bytes, kOlderFiles, false, handlers),
        options.json);
  } catch (const spdlog::spdlog_ex& error) {
    return FailedPrecondition("{}; give --log a file that can be written", error.what());
  }
}

}  // namespace rivulet
