// Privacy loss of many rounds: the n-fold convolution of their losses by the fast Fourier transform. An exponential
// tilt first moves the point of interest into the middle, so that small deltas keep their digits. The wrap-around and
// rounding errors are bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "federated/privacy/loss_pair.h"

namespace rivulet::privacy {

struct ComposedPair {
  LossPair pair;
  int64_t count = 1;
};

struct Bracket {
  double upper = 0, lower = 0;
};

// One direction: neighbours' pairs of all rounds. Not thread-safe.
class LossComposition {
 public:
  explicit LossComposition(std::vector<ComposedPair> rounds);

  // Bounds of the least epsilon >= 0 for `delta` in (0, 1), and of the delta of `epsilon` >= 0, of exactly these pairs.
  // The grid is chosen anew for every question.
  Bracket Epsilon(double delta) const;
  Bracket Delta(double epsilon) const;

 private:
  struct Nodes {
    std::vector<LossAtom> nodes;
    int64_t count = 1;
  };
  // Of the sum of all losses under the tilted law: log of the moment, its mean and deviation.
  struct Moments {
    double log = 0, mean = 0, deviation = 0;
  };
  Moments MomentsAt(double tilt) const;
  double LogMomentAt(double tilt) const;
  // The least tilt >= 0 at which `reached` holds; or one where the law has become narrow, if that comes first.
  template <typename F>
  double FindTilt(F reached) const;
  double TiltForDelta(double delta) const;
  double LogChernoff(double epsilon) const;

  class Tilted;

  std::vector<ComposedPair> rounds_;
  std::vector<Nodes> nodes_;
};

}  // namespace rivulet::privacy
