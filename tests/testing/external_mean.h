// A function of this process for the rule "external": the weighted mean, read from the updates' files as a process
// outside reads them.
#pragma once

#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "federated/aggregation/external.h"

namespace rivulet::testing {

class ExternalMean final : public ExternalAggregation {
 public:
  Status Aggregate(const ExternalRequest& request, std::span<float> out) override {
    ++calls;
    version = request.version;
    double weights = 0;
    std::vector<double> sums(out.size());
    std::vector<float> values(out.size());
    for (const ExternalRequest::Update& update : request.updates) {
      std::ifstream file(update.file, std::ios::binary);
      file.seekg(update.offset);
      if (!file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(out.size_bytes())))
        return Internal("'{}' has not all of the update of '{}'", update.file, update.task);
      weights += update.weight;
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += update.weight * static_cast<double>(values[i]);
    }
    for (size_t i = 0; i < sums.size(); ++i) out[i] = static_cast<float>(sums[i] / weights) + added;
    return absl::OkStatus();
  }

  int calls = 0;
  int64_t version = 0;
  float added = 0;
};

// In use as long as this lives.
class UsesExternalMean {
 public:
  UsesExternalMean() : mean_(std::make_shared<ExternalMean>()) { UseExternalAggregation(mean_); }
  ~UsesExternalMean() { UseExternalAggregation(nullptr); }
  UsesExternalMean(const UsesExternalMean&) = delete;
  UsesExternalMean& operator=(const UsesExternalMean&) = delete;
  ExternalMean& operator*() const { return *mean_; }
  ExternalMean* operator->() const { return mean_.get(); }

 private:
  const std::shared_ptr<ExternalMean> mean_;
};

}  // namespace rivulet::testing
