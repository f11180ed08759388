// Load on a model server over gRPC: a constant number of requests under way, and the rate and latencies of answers.
// Empty calls in the same run show the limit of the machine's network and gRPC.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "rpc/credentials.h"

namespace rivulet {

struct LoadOptions {
  NetworkAddress server;
  std::shared_ptr<const TransportCredentials> credentials;
  std::string model, version;
  int outstanding = 64;
  int64_t rows = 1;  // per request
  std::chrono::milliseconds duration{5000};
};

struct LoadResult {
  double per_second = 0;  // answered calls
  int64_t answered = 0, failed = 0;
  double p50_ms = 0, p99_ms = 0;
  std::string first_error;
};

// Load of ServerLive calls, which are empty.
StatusOr<LoadResult> LoadEmptyCalls(const LoadOptions& options);
// Load of ModelInfer calls with raw zeros, in the shapes of the model's metadata. Errors: there are no metadata.
StatusOr<LoadResult> LoadInference(const LoadOptions& options);

}  // namespace rivulet
