// Prometheus metrics of a coordinator: a pure function from its state to the text of exposition format 0.0.4.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/control/client_registry.h"
#include "coordinator/coordinator.h"
#include "rpc/transfer_totals.h"

namespace rivulet {

class CoordinatorHost;

struct MetricsSnapshot {
  std::string version;  // of the program
  double started = 0;   // of the process; seconds since 1970
  int64_t resident_bytes = 0;
  std::vector<RunStatus> runs;
  ClientRegistry::Counts clients;
  TransferTotals transferred;
  int64_t first_certificate_end_unix_ms = 0;  // of connected clients; 0: no certificate
};

inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// Writes the metrics. Each has its HELP and TYPE, names are sorted as in docs/guide/operations.md, and label values are
// escaped.
std::string MetricsText(const MetricsSnapshot& snapshot);

// A snapshot of the present state. `started`: of the process, seconds since 1970.
MetricsSnapshot TakeMetrics(const CoordinatorHost& host, const ClientRegistry& roster,
                            const TransferTotals& transferred, std::string version, double started);

}  // namespace rivulet
