// Load on a model server over gRPC: a fixed number of requests under way, and how many were answered how fast. Empty
// calls in the same run show the limit of the machine's network and gRPC.
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
  int64_t rows = 1;  // of a request
  std::chrono::milliseconds duration{5000};
};

struct LoadResult {
  double per_second = 0;  // answered calls
  int64_t answered = 0, failed = 0;
  double p50_ms = 0, p99_ms = 0;
  std::string first_error;
};

// ServerLive, with nothing in it.
StatusOr<LoadResult> LoadEmptyCalls(const LoadOptions& options);
// ModelInfer with raw zeros, in the shapes that the model's metadata tell. Errors: the metadata cannot be had.
StatusOr<LoadResult> LoadInference(const LoadOptions& options);

}  // namespace rivulet
