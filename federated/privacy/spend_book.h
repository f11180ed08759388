// Account of the attempts of one run: the epsilons spent so far, also with one more attempt. Attempts may differ in
// noise and sampling; each is charged with its actual parameters. Pure: no file, no clock.
#pragma once

#include <optional>

#include "federated/privacy/accountant.h"
#include "federated/privacy/rounds.h"

namespace rivulet::privacy {

// Not thread-safe.
class SpendBook {
 public:
  // Every epsilon is at `delta`, within 0 and 1.
  SpendBook(Relation relation, double delta) : delta_(delta) { spent_.relation = relation; }

  // One attempt, whether it was committed or abandoned. INVALID_ARGUMENT: as Check(Composition); nothing is charged.
  Status Charge(const NoisedRounds& attempt);
  struct Epsilons {
    double viewers = 0;       // against viewers of the models: with amplification by sampling
    double participants = 0;  // against participants, since they know each cohort: without it
  };
  // Of all that was charged; infinite where some attempt had no noise. Errors as EpsilonOf.
  StatusOr<Epsilons> Spent() const { return EpsilonsOf(spent_); }
  // As if `attempt` were charged too.
  StatusOr<Epsilons> SpentWith(const NoisedRounds& attempt) const;

  const Composition& composition() const { return spent_; }
  double delta() const { return delta_; }

 private:
  StatusOr<Epsilons> EpsilonsOf(const Composition& composition) const;

  double delta_;
  Composition spent_;  // equal attempts that follow one another are one entry
};

}  // namespace rivulet::privacy
