// Privacy loss of one round for a pair of neighbouring inputs: log(P / Q) of an outcome drawn from P, as pieces in
// rising order of the loss. Pairs made here dominate: no neighbours have a larger loss.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "federated/privacy/rounds.h"

namespace rivulet::privacy {

// Outcomes with one loss.
struct LossAtom {
  double loss = 0;
  double mass = 0;  // under P
};

// Outcomes on an interval of the line, along which the loss rises. Immutable.
class LossSegment {
 public:
  LossSegment(double begin, double end, double panel) : begin(begin), end(end), panel(panel) {}
  virtual ~LossSegment() = default;
  virtual double Loss(double place) const = 0;
  virtual double Density(double place) const = 0;  // of P
  virtual double PlaceOf(double loss) const = 0;   // may lie outside; +-infinity for losses that never occur

  const double begin, end;
  const double panel;  // a width over which the density is smooth: integrals go by panels no wider
};

struct LossPiece {
  LossAtom atom;
  std::shared_ptr<const LossSegment> segment = nullptr;  // nullptr: the atom
};

struct LossPair {
  std::vector<LossPiece> pieces;
  double below = 0;     // mass of P left out whose losses are at most the first piece's
  double infinite = 0;  // mass of P left out whose losses may be anything
};

// The pairs that have to be composed for a round of `rounds` under the relation: two (the member is there or not), or
// one where both directions are alike. Gaussian noise continuous; the discrete Gaussian as one coordinate, with whole
// sensitivity. The rate is above 0 and the multiplier is above 0.
std::vector<LossPair> LossPairsOf(const NoisedRounds& rounds, Relation relation);

// The loss as weighted points, for moments.
std::vector<LossAtom> LossNodes(const LossPair& pair);
// log of the sum of mass * e^(tilt * loss).
double LogMoment(std::span<const LossAtom> nodes, double tilt);

}  // namespace rivulet::privacy
