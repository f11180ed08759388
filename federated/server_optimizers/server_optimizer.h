// A server optimiser: applies the mean of a version's updates to the server's state in a pure loop over flat spans. One
// registered file an optimiser, with its table of settings; the learning rate, common to all, is server.learning_rate.
//
//   class Momentum final : public ServerOptimizer {
//     std::vector<Flat> Flats() const override { return {{"server/m", 0}}; }
//     bool Step(const ServerStep& step) const override;
//   };
//   RIVULET_SERVER_OPTIMIZER(momentum_registration, "momentum", {Float("beta", 0.9, "…")}, CreateMomentum);
//
// Reading the registry is thread-safe once main has begun.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "federated/server_optimizers/version_mean.h"
#include "federated/server_state/server_state.h"
#include "federated/settings/piece.h"

namespace rivulet {

// What a version's updates come to beside their means.
struct VersionSums {
  std::map<std::string, double> scalars = {};  // of the aggregation, as ServerInput has them
  double denominator = 1;                      // of the part "delta"
  int64_t updates = 1;
};

// One step of a stretch of one tensor. Spans are of one length, but that of no flat.
struct ServerStep {
  // kTrainable, or kShared: running statistics, which are averaged and not optimised; they have no flats.
  Segment segment = Segment::kTrainable;
  double learning_rate = 1;
  double factor = 1;                    // the version's, as Factor says; of running statistics 1
  std::span<const float> params, mean;  // the version before; the mean of the updates
  std::span<float> next;
  std::span<const std::span<float>> flats;  // of Flats(), in that order: as they were, to be as they are now
  // The means of Parts(), in that order; empty of one that no update had. Of kShared none.
  std::span<const std::span<const float>> parts;
};

// Immutable. Every operation is rounded once, to double, and what is kept once more, to float32: the room is compiled
// without contraction, so that versions agree between machines.
class ServerOptimizer {
 public:
  virtual ~ServerOptimizer() = default;
  // `average`: of the versions' weights, how much of it stays in each (federated/server_optimizers/averaged.h); 0: none
  // is kept. NOT_FOUND names the nearest; INVALID_ARGUMENT as Settings::Read.
  static StatusOr<std::unique_ptr<const ServerOptimizer>> Create(const PieceSpec& piece, double average = 0);

  struct Flat {
    std::string name;         // begins with "server/"
    float first = 0;          // every element's value in version 0, unless
    bool from_model = false;  // it begins as the weights of version 0
    bool drawn = false;       // it begins as other first values of the model, of its own
  };
  virtual std::vector<Flat> Flats() const { return {}; }
  // Of these flats the models that the server has beside its first, by their names without "server/": what is measured
  // of a version is measured of each, and called "<name>/…".
  virtual std::vector<std::string> Models() const { return {}; }
  // The parts of updates that it takes beside "delta", each one value for each trainable element: "dc". What no update
  // of a version had, of an optional part, has no mean.
  virtual std::vector<std::string> Parts() const { return {}; }
  // A number of the whole version, which every Step gets: asked once, before the first.
  virtual double Factor(VersionMean& mean, const VersionSums& sums) const {
    static_cast<void>(mean), static_cast<void>(sums);
    return 1;
  }
  // Called for each tensor that travels, stretch by stretch: what becomes of an element follows from its own values
  // alone. False: a value of `next` or of a flat is not finite.
  virtual bool Step(const ServerStep& step) const = 0;
};

// NaN and infinity are the floats whose exponent is all ones. Without a branch, so that loops over it are vectors.
inline bool IsNotFinite(float value) {
  constexpr uint32_t kExponent = 0x7F800000;
  return (std::bit_cast<uint32_t>(value) & kExponent) == kExponent;
}

// Other first values of the model, of those that a flat begins as that is `drawn`: by its name.
using DrawModel = std::function<StatusOr<std::shared_ptr<const Model>>(std::string_view flat)>;
// Version 0 of a run. INVALID_ARGUMENT: a variable of the model has the name of a flat, or what is drawn for one is the
// model itself, since its first values are the same by every draw.
StatusOr<ServerState> FirstState(std::shared_ptr<const Model> model, const ServerOptimizer& optimizer,
                                 const DrawModel& draw = nullptr);
// DATA_LOSS: `state`, as it was read, has not the flats that `optimizer` goes on with.
Status CheckState(const ServerState& state, const ServerOptimizer& optimizer);
// The means of other parts than "delta", by name, in wire order.
using PartMeans = std::map<std::string, std::span<const float>, std::less<>>;
// The version after `base`. `mean`: of trainable and shared elements; other tensors are the base's. Empty, as the mean
// of a part that no update had: it is zero.
// INVALID_ARGUMENT: it is not as long as the model's update, or a part of the optimiser's is not there or not as long
// as the model. FAILED_PRECONDITION: a result is not finite; names its tensor.
StatusOr<ServerState> NextState(const ServerState& base, const ServerOptimizer& optimizer, double learning_rate,
                                VersionMean&& mean, const PartMeans& parts = {}, const VersionSums& sums = {});

using ServerOptimizerFactory = StatusOr<std::unique_ptr<const ServerOptimizer>> (*)(const Settings& settings);
// Registers the table ("server optimizer", name) too. A check fails where two have one name.
struct ServerOptimizerRegistration {
  ServerOptimizerRegistration(const char* name, std::vector<Setting> settings, ServerOptimizerFactory factory);
};
#define RIVULET_SERVER_OPTIMIZER(variable, ...) \
  [[maybe_unused]] static const ::rivulet::ServerOptimizerRegistration variable(__VA_ARGS__)

}  // namespace rivulet
