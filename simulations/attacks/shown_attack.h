// Measures of an attack's success that the test accuracy does not show. A model with a backdoor is as accurate as any,
// but classifies every image with the trigger square as the attackers' label.
#pragma once

#include <memory>

#include "federated/evaluation/evaluator.h"
#include "setup/run_setup.h"

namespace rivulet {

// `sets` and, for an attack with Attack::shows, the examples of data.test of other labels as attackers would show them.
// "<attack>/accuracy" is the share with the attackers' wanted label (the success rate of the attack; Bagdasaryan et al.
// 2020, arXiv:1807.00459, section 5), "<attack>/loss" its loss. `sets` itself if there is no such attack, no data.test,
// or no evaluation. Evaluated on the host with so many threads, 0: one per core. Errors as Attack::Create and Show,
// which name file and record.
StatusOr<std::shared_ptr<Evaluator>> WithAttackShown(RunSetup& setup, std::shared_ptr<Evaluator> sets, int threads);

}  // namespace rivulet
