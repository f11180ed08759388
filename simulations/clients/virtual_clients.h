// Virtual clients of a simulation in a process that can train any of them: their data, the attackers among them, and
// everything compiled, parsed and decoded once for all.
#pragma once

#include <memory>
#include <string>

#include "client/site/site.h"
#include "client/training/artifact_cache.h"
#include "setup/run_setup.h"

namespace rivulet {

class VirtualClients {
 public:
  // Of a scenario with training data. `keeps_state`: its plan has clients keep something from task to task, which not
  // every attack allows. `artifacts`: of all runs of this process; null: of these clients alone. Errors as RunSetup's
  // and Adversaries::Create.
  static StatusOr<std::unique_ptr<VirtualClients>> Create(RunSetup& setup, bool keeps_state,
                                                          std::shared_ptr<ArtifactCache> artifacts = nullptr);

  const Shares& shares() const { return *shares_; }
  const std::shared_ptr<const Shares>& shared_shares() const { return shares_; }
  const ClientData& data() const { return *data_; }
  // Of those that attack by their updates; null: none does.
  const UpdateAttack* attack() const { return attack_; }
  ArtifactCache& artifacts() { return *artifacts_; }

  // The first record as `plan` is fed with it: one of the wrong kind is told here, and not as a client that fails.
  Status CheckFirstExample(const Plan& plan) const;
  // INVALID_ARGUMENT: a client has more examples than an update may weigh.
  Status CheckWeights(const AggregationSpec& aggregation) const;
  // Of the data, by its size and a sample of its records, and of who holds what of it. Processes in which it differs
  // would train one name on different examples.
  StatusOr<std::string> Fingerprint() const;

 private:
  VirtualClients(std::shared_ptr<const Dataset> dataset, std::shared_ptr<const Shares> shares,
                 std::shared_ptr<ArtifactCache> artifacts)
      : dataset_(std::move(dataset)), shares_(std::move(shares)), artifacts_(std::move(artifacts)) {}

  const std::shared_ptr<const Dataset> dataset_;
  const std::shared_ptr<const Shares> shares_;
  std::unique_ptr<const ClientData> data_;
  const UpdateAttack* attack_ = nullptr;  // of data_
  const std::shared_ptr<ArtifactCache> artifacts_;
};

}  // namespace rivulet
