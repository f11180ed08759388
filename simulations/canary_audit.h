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
  int64_t guesses = 0;  // an even number; 0: a fifth of the canaries, at least 40
  double confidence = 0.999;
};

struct CanaryAudit {
  std::string run_id;
  int64_t round = 0;                 // of the audited model
  int64_t releases = 0;              // versions that were audited separately; 0: only the newest against the first
  int64_t canaries = 0, taken = 0;   // `taken`: included by their coins
  double dp_delta = 0;               // for every epsilon here
  privacy::CanaryEstimate estimate;  // Andrew et al. 2024, for the included ones
  privacy::GuessedCanaries guessed;  // Steinke et al. 2023
  std::optional<double> claimed;     // the run's epsilon against readers of the models; nullopt: none was claimed
  bool refuted() const { return claimed && guessed.epsilon > *claimed; }
};

// FAILED_PRECONDITION: the run has no canaries, no version, or no stored newest model. INVALID_ARGUMENT: fewer than 10
// canaries, or numbers out of range. Other errors are those of history and data.
StatusOr<CanaryAudit> AuditByCanaries(const CanaryAuditOptions& options);

}  // namespace rivulet
