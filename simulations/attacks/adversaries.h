// Clients of a simulation, some of them attackers: their data, and the changes to their updates. The run's seed selects
// the attackers among all clients. Each draw of an attacker depends on its client, task and seed alone. So a run under
// attack has the same bits for any number of workers and in every repetition.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/site/site.h"
#include "engine/base/mutex.h"
#include "federated/scenario/scenario.h"
#include "setup/partitioners/shares.h"
#include "simulations/attacks/attack.h"
#include "simulations/attacks/shared_data.h"

namespace rivulet {

// The attack of a scenario, for its model's features. Errors as Attack::Create.
StatusOr<std::unique_ptr<const Attack>> AttackOf(const Scenario& scenario);

class Adversaries final : public ClientData, public UpdateAttack {
 public:
  // For a scenario with an attack. Errors as Attack::Create; FAILED_PRECONDITION: colluding attackers train for others
  // too, which is impossible with `keeps_state`, because clients keep state between tasks.
  static StatusOr<std::unique_ptr<const Adversaries>> Create(const Scenario& scenario, bool keeps_state,
                                                             std::shared_ptr<const Dataset> dataset,
                                                             std::shared_ptr<const Shares> shares);

  StatusOr<BoundData> Of(std::string_view client_id) const override;
  bool Changes(std::string_view client_id) const override { return attack_->changes_updates() && Attacks(client_id); }
  Status Change(const Task& task, const TrainFn& train, std::vector<float>& values) const override;
  bool Attacks(std::string_view client_id) const;

 private:
  using Benign = std::shared_ptr<const BenignUpdates>;
  Adversaries(std::shared_ptr<const Dataset> dataset, const std::shared_ptr<const Shares>& shares,
              const std::string& data_name)
      : data_(std::move(dataset), shares, data_name), shares_(shares) {}
  // The benign updates of attackers from the base model of `task`.
  StatusOr<Benign> BenignUpdatesFor(const Task& task, const TrainFn& train) const;

  const SharedData data_;
  const std::shared_ptr<const Shares> shares_;
  std::shared_ptr<const Dataset> poisoned_;  // null: attackers' data are unchanged
  std::unique_ptr<const Attack> attack_;
  uint64_t seed_ = 0;
  std::vector<bool> attackers_;         // by client
  std::vector<std::string> colluders_;  // in the order of the draw
  // Held while an estimate is made: other attackers wait for it. For the most recent models alone.
  mutable Mutex mutex_;
  mutable std::vector<std::pair<Digest, Benign>> benign_ GUARDED_BY(mutex_);
};

}  // namespace rivulet
