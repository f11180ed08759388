#include "coordinator/control/metrics.h"

#include <unistd.h>

#include <cstdio>

#include "coordinator/host/coordinator_host.h"

namespace rivulet {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

std::string Escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text;
}

class Exposition {
 public:
  void Metric(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  void Value(const Labels& labels, double value) {
    text_ += name_;
    for (size_t i = 0; i < labels.size(); ++i) {
      text_ += fmt::format("{}{}=\"{}\"", i == 0 ? "{" : ",", labels[i].first, Escaped(labels[i].second));
    }
    text_ += fmt::format("{} {}\n", labels.empty() ? "" : "}", value);
  }
  std::string Finish() && { return std::move(text_); }

 private:
  std::string name_, text_;
};

// Resident memory of this process, in bytes; 0: the system does not report it.
int64_t ResidentBytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long size = 0, resident = 0;
  const int read = std::fscanf(file, "%ld %ld", &size, &resident);
  std::fclose(file);
  return read == 2 ? int64_t{resident} * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace

std::string MetricsText(const MetricsSnapshot& snapshot) {
  Exposition out;
  const auto of_runs = [&](std::string_view name, std::string_view type, std::string_view help, const auto& value) {
    out.Metric(name, type, help);
    for (const RunStatus& run : snapshot.runs) {
      out.Value({{"run_id", run.state.run_id}, {"name", run.state.name}}, static_cast<double>(value(run)));
    }
  };
  out.Metric("rivulet_build_info", "gauge", "The program's version, as a label.");
  out.Value({{"version", snapshot.version}}, 1);
  out.Metric("rivulet_clients", "gauge", "Clients by status: connected, banned, or waiting for an operator.");
  out.Value({{"state", "connected"}}, static_cast<double>(snapshot.clients.connected));
  out.Value({{"state", "away"}}, static_cast<double>(snapshot.clients.away));
  out.Value({{"state", "banned"}}, static_cast<double>(snapshot.clients.banned));
  out.Value({{"state", "waiting"}}, static_cast<double>(snapshot.clients.waiting));
  out.Metric("rivulet_client_certificate_end_seconds", "gauge",
             "When the first certificate of a connected client ends, seconds since 1970.");
  if (snapshot.first_certificate_end_unix_ms > 0)
    out.Value({}, static_cast<double>(snapshot.first_certificate_end_unix_ms / 1000));
  out.Metric("rivulet_run_state", "gauge", "1 for the state that a run is in.");
  for (const RunStatus& run : snapshot.runs) {
    out.Value({{"run_id", run.state.run_id}, {"name", run.state.name}, {"state", run.state.state}}, 1);
  }
  of_runs("rivulet_run_paused", "gauge", "1 for a run that an operator has paused.",
          [](const RunStatus& run) { return run.state.paused ? 1 : 0; });
  of_runs("rivulet_run_round", "gauge", "The open round, or the last one of a finished run.",
          [](const RunStatus& run) { return run.state.round; });
  of_runs("rivulet_run_rounds", "gauge", "Rounds that the run is to commit.",
          [](const RunStatus& run) { return run.state.rounds; });
  of_runs("rivulet_run_attempt", "gauge", "The attempt at this round; more than 1 where some got too few updates.",
          [](const RunStatus& run) { return run.state.attempt; });
  of_runs("rivulet_run_selected", "gauge", "Clients that were selected for this round.",
          [](const RunStatus& run) { return run.state.selected; });
  of_runs("rivulet_run_folded", "gauge", "Updates of this round that have arrived.",
          [](const RunStatus& run) { return run.state.folded; });
  of_runs("rivulet_run_clients", "gauge", "Members of the run.",
          [](const RunStatus& run) { return run.state.clients; });
  of_runs("rivulet_run_rounds_committed_total", "counter", "Rounds that this process has committed.",
          [](const RunStatus& run) { return run.totals.committed; });
  of_runs("rivulet_run_attempts_abandoned_total", "counter", "Attempts that this process has abandoned.",
          [](const RunStatus& run) { return run.totals.abandoned; });
  out.Metric("rivulet_run_tasks_total", "counter", "Tasks that ended in this process, by outcome.");
  for (const RunStatus& run : snapshot.runs) {
    const RunStatus::Totals& totals = run.totals;
    const std::pair<const char*, int64_t> ends[] = {
        {"folded", totals.folded}, {"refused", totals.refused}, {"dropped", totals.dropped}, {"failed", totals.failed}};
    for (const auto& [end, count] : ends) {
      out.Value({{"run_id", run.state.run_id}, {"name", run.state.name}, {"status", end}}, static_cast<double>(count));
    }
  }
  of_runs("rivulet_run_upload_bytes_total", "counter", "Bytes of updates of these tasks.",
          [](const RunStatus& run) { return run.totals.bytes_up; });
  of_runs("rivulet_run_download_bytes_total", "counter", "Bytes that these tasks have fetched.",
          [](const RunStatus& run) { return run.totals.bytes_down; });
  const TransferTotals& moved = snapshot.transferred;
  out.Metric("rivulet_transfer_bytes_total", "counter",
             "Bytes that uploads and downloads have moved, as they are before they are packed and after.");
  out.Value({{"direction", "up"}}, static_cast<double>(moved.up));
  out.Value({{"direction", "down"}}, static_cast<double>(moved.down));
  out.Metric("rivulet_transfer_wire_bytes_total", "counter", "Bytes that these took on the wire, without TLS.");
  out.Value({{"direction", "up"}}, static_cast<double>(moved.up_wire));
  out.Value({{"direction", "down"}}, static_cast<double>(moved.down_wire));
  out.Metric("process_resident_memory_bytes", "gauge", "Memory of the coordinator's process.");
  out.Value({}, static_cast<double>(snapshot.resident_bytes));
  out.Metric("process_start_time_seconds", "gauge", "When it was started, seconds since 1970.");
  out.Value({}, snapshot.started);
  return std::move(out).Finish();
}

MetricsSnapshot TakeMetrics(const CoordinatorHost& host, const ClientRegistry& roster,
                            const TransferTotals& transferred, std::string version, double started) {
  MetricsSnapshot snapshot{.version = std::move(version), .started = started, .resident_bytes = ResidentBytes()};
  for (const auto& run : host.runs()) snapshot.runs.push_back(run->Standing());
  snapshot.transferred = transferred;
  snapshot.clients = roster.counts();
  snapshot.first_certificate_end_unix_ms = roster.first_certificate_end();
  return snapshot;
}

}  // namespace rivulet
