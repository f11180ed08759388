// The adaptive servers of FedOpt (Reddi et al. 2021, arXiv:2003.00295, algorithm 2): with d the mean delta,
//
//   m ← beta1·m + (1 − beta1)·d
//   v ← v + d²                                       "adagrad"
//   v ← v − (1 − beta2)·d²·sign(v − d²)              "yogi"
//   v ← beta2·v + (1 − beta2)·d²                     "adam"
//   w ← w + server.learning_rate · m / (√v + tau)
//
// without Kingma and Ba's bias correction; instead v starts at `initial_accumulator`. Each line is computed in double
// and rounded once to float32, and the next line uses the rounded value: stored and used values are equal, so a run
// that resumes from a file computes the same. Statistics are averaged (w ← w + d): they are not parameters, and
// adaptive steps could make a variance negative.
#include "federated/server_optimizers/adaptive.h"

#include <cmath>

#include "federated/server_optimizers/server_optimizer.h"

namespace rivulet {
namespace {

Setting Beta1(double usual) {
  Setting beta1 = Float("beta1", usual, "Of the mean of past deltas, how much stays in a round.").Between(0, 1);
  beta1.example = "0.5";
  return beta1;
}

Setting Beta2() {
  Setting beta2 = Float("beta2", 0.99, "Of the mean of their squares, how much stays in a round.").Between(0, 1);
  beta2.example = "0.999";
  return beta2;
}

Setting Tau() {
  Setting tau = Float("tau", 1e-3, "Added to the root of the mean square; larger: less adaptive.").Above(0);
  tau.example = "0.1";
  return tau;
}

Setting InitialAccumulator() {
  Setting first =
      Float("initial_accumulator", 1e-6, "Start of the mean of squares; the paper wants at least `tau`².").AtLeast(0);
  first.example = "0.01";
  return first;
}

struct AdamSquares {
  static double Next(double v, double square, double beta2) { return beta2 * v + (1 - beta2) * square; }
};
struct YogiSquares {
  static double Next(double v, double square, double beta2) {
    const double sign = static_cast<double>(v > square) - static_cast<double>(v < square);
    return v - (1 - beta2) * square * sign;
  }
};
struct AdagradSquares {
  static double Next(double v, double square, double) { return v + square; }
};

template <class Squares>
class AdaptiveServer final : public ServerOptimizer {
 public:
  AdaptiveServer(const Settings& settings, double beta2)
      : beta1_(settings.number("beta1")),
        beta2_(beta2),
        tau_(settings.number("tau")),
        first_(static_cast<float>(settings.number("initial_accumulator"))) {}

  std::vector<Flat> Flats() const override { return {{"server/m", 0}, {"server/v", first_}}; }

  bool Step(const ServerStep& step) const override {
    const float* const params = step.params.data();
    const float* const mean = step.mean.data();
    float* const next = step.next.data();
    uint32_t bad = 0;
    if (step.segment == Segment::kShared) {
      for (size_t i = 0; i < step.next.size(); ++i) {
        next[i] = static_cast<float>(static_cast<double>(params[i]) + static_cast<double>(mean[i]));
        bad |= IsNotFinite(next[i]) ? 1 : 0;
      }
      return bad == 0;
    }
    float* const m = step.flats[0].data();
    float* const v = step.flats[1].data();
    for (size_t i = 0; i < step.next.size(); ++i) {
      const double w = params[i], d = mean[i];
      m[i] = static_cast<float>(beta1_ * m[i] + (1 - beta1_) * d);
      v[i] = static_cast<float>(Squares::Next(v[i], d * d, beta2_));
      next[i] = static_cast<float>(w + step.learning_rate * m[i] / (std::sqrt(static_cast<double>(v[i])) + tau_));
      bad |= IsNotFinite(m[i]) || IsNotFinite(v[i]) || IsNotFinite(next[i]) ? 1 : 0;
    }
    return bad == 0;
  }

 private:
  const double beta1_, beta2_, tau_;
  const float first_;
};

using MadeServer = StatusOr<std::unique_ptr<const ServerOptimizer>>;

}  // namespace

std::vector<Setting> ServerAdamSettings() { return {Beta1(0.9), Beta2(), Tau(), InitialAccumulator()}; }

std::vector<Setting> ServerAdagradSettings() { return {Beta1(0), Tau(), InitialAccumulator()}; }

namespace {

RIVULET_SERVER_OPTIMIZER(server_adam_registration, "adam", ServerAdamSettings(),
                         [](const Settings& settings) -> MadeServer {
                           return std::make_unique<AdaptiveServer<AdamSquares>>(settings, settings.number("beta2"));
                         });
RIVULET_SERVER_OPTIMIZER(server_yogi_registration, "yogi", ServerAdamSettings(),
                         [](const Settings& settings) -> MadeServer {
                           return std::make_unique<AdaptiveServer<YogiSquares>>(settings, settings.number("beta2"));
                         });
RIVULET_SERVER_OPTIMIZER(server_adagrad_registration, "adagrad", ServerAdagradSettings(),
                         [](const Settings& settings) -> MadeServer {
                           return std::make_unique<AdaptiveServer<AdagradSquares>>(settings, 1);
                         });

}  // namespace
}  // namespace rivulet
