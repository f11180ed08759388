// Audit of a simulated run with canary clients (simulations/attacks/canary.h): an estimate of its epsilon, and a lower
// bound that holds with the stated confidence. It reads the history, the first and the newest model, and the scenario's
// data, from which the canaries' names follow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "federated/privacy/audit.h"
#include "federated/scenario/scenario.h"

namespace rivulet {

struct CanaryAuditOptions {
  Scenario scenario;  // of the stored run
  std::string db_path, run;
  int64_t guesses = 0;  // an even number; 0: a fifth of the canaries, 40 at least
  double confidence = 0.999;
};

struct CanaryAudit {
  std::string run_id;
  int64_t round = 0;                 // of the audited model
  int64_t releases = 0;              // versions that were audited one by one; 0: the newest against the first alone
  int64_t canaries = 0, taken = 0;   // `taken`: that their coins put in
  double dp_delta = 0;               // of every epsilon here
  privacy::CanaryEstimate estimate;  // Andrew et al. 2024, of those that were put in
  privacy::GuessedCanaries guessed;  // Steinke et al. 2023
  std::optional<double> claimed;     // the run's epsilon against viewers of the models; nullopt: none was claimed
  bool refuted() const { return claimed && guessed.epsilon > *claimed; }
};

// FAILED_PRECONDITION: the run has no canaries, no version, or its newest model was not kept. INVALID_ARGUMENT: fewer
// than 10 canaries, or numbers out of range. Others as of history and data.
StatusOr<CanaryAudit> AuditByCanaries(const CanaryAuditOptions& options);

}  // namespace rivulet
