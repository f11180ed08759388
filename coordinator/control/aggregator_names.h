// Client names that each aggregator has added to the runs of a process, and their limit. An aggregator names its own
// clients. Without a list of clients (--clients) the coordinator cannot check them, and a hostile aggregator could fill
// every place of a run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace rivulet {

// Count of names per aggregator. Not thread-safe. A name belongs to the first aggregator that named it, while the
// process lives. Names of an earlier process count when they are named again.
class AggregatorNames {
 public:
  // `most` names per aggregator; 0: any number, and nothing is recorded.
  explicit AggregatorNames(int64_t most = 0) : most_(most) {}
  // Whether `aggregator` may serve this name; a new name counts from now on.
  bool Admit(const std::string& aggregator, const std::string& name);
  // The run has refused a name that Admit counted, so it is subtracted.
  void Withdraw(const std::string& aggregator, const std::string& name);
  int64_t most() const { return most_; }

 private:
  int64_t most_;
  std::map<std::string, std::string> brought_;  // by name, the aggregator
  std::map<std::string, int64_t> counts_;       // by aggregator
};

}  // namespace rivulet
