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
  // For a scenario with training data. `keeps_state`: clients of its plan keep state between tasks, which some attacks
  // do not allow. `artifacts`: shared by all runs of this process; null: for these clients alone. Errors as RunSetup's
  // and Adversaries::Create.
  static StatusOr<std::unique_ptr<VirtualClients>> Create(RunSetup& setup, bool keeps_state,
                                                          std::shared_ptr<ArtifactCache> artifacts = nullptr);

  const Shares& shares() const { return *shares_; }
  const std::shared_ptr<const Shares>& shared_shares() const { return shares_; }
  const ClientData& data() const { return *data_; }
  // The attack on updates; null: there is none.
  const UpdateAttack* attack() const { return attack_; }
  ArtifactCache& artifacts() { return *artifacts_; }

  // Decodes the first record for `plan`: a wrong kind of record is reported here, not by a failing client.
  Status CheckFirstExample(const Plan& plan) const;
  // INVALID_ARGUMENT: a client has more examples than the largest weight of an update.
  Status CheckWeights(const AggregationSpec& aggregation) const;
  // A fingerprint of the data's size, a sample of its records, and the clients' shares. Processes with different
  // fingerprints would train a client on different examples.
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
