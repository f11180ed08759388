// A server optimiser: applies the mean of a version's updates to the server's state in a loop over flat spans. Each is
// one registered file with its table of settings; the learning rate, common to all, is server.learning_rate.
//
//   class Momentum final : public ServerOptimizer {
//     std::vector<Flat> Flats() const override { return {{"server/m", 0}}; }
//     bool Step(const ServerStep& step) const override;
//   };
//   RIVULET_SERVER_OPTIMIZER(momentum_registration, "momentum", {Float("beta", 0.9, "…")}, CreateMomentum);
//
// Lookups are thread-safe once main has started.
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

// Sums of a version's updates, besides their means.
struct VersionSums {
  std::map<std::string, double> scalars = {};  // of the aggregation, as in ServerInput
  double denominator = 1;                      // of the part "delta"
  int64_t updates = 1;
};

// A step on a stretch of one tensor. All spans of values have one length, or are empty if absent.
struct ServerStep {
  // kTrainable, or kShared: running statistics, which are averaged, not optimised, and have no flats.
  Segment segment = Segment::kTrainable;
  double learning_rate = 1;
  double factor = 1;                    // the version's Factor; 1 for running statistics
  std::span<const float> params, mean;  // of the previous version; of the updates
  std::span<float> next;
  std::span<const std::span<float>> flats;  // those of Flats(), in that order; Step updates them in place
  // The means of Parts(), in that order; empty if no update had the part. For kShared there are none.
  std::span<const std::span<const float>> parts;
};

// Immutable. Every operation is rounded once, to double, and stored values once more, to float32: this folder is
// compiled without contraction, so that versions agree between machines.
class ServerOptimizer {
 public:
  virtual ~ServerOptimizer() = default;
  // `average`: weight of the old value in an exponential average of versions (federated/server_optimizers/averaged.h);
  // 0: no average. NOT_FOUND names the nearest optimizer; INVALID_ARGUMENT as Settings::Read.
  static StatusOr<std::unique_ptr<const ServerOptimizer>> Create(const PieceSpec& piece, double average = 0);

  struct Flat {
    std::string name;         // begins with "server/"
    float first = 0;          // initial value of every element, unless
    bool from_model = false;  // it starts as the weights of version 0, or
    bool drawn = false;       // as other random initial values of the model
  };
  virtual std::vector<Flat> Flats() const { return {}; }
  // Flats that are further models besides the first, by names without "server/": each measure of a version is also
  // taken of them, with the name "<name>/…".
  virtual std::vector<std::string> Models() const { return {}; }
  // The parts of updates that it needs besides "delta", with one value per trainable element: "dc". An optional part
  // that no update of a version had has an empty mean.
  virtual std::vector<std::string> Parts() const { return {}; }
  // A number of the whole version, passed to every Step; called once, before the first.
  virtual double Factor(VersionMean& mean, const VersionSums& sums) const {
    static_cast<void>(mean), static_cast<void>(sums);
    return 1;
  }
  // Called for each sent tensor, stretch by stretch. The result for an element must depend on its own values alone.
  // Returns false if a value of `next` or of a flat is not finite.
  virtual bool Step(const ServerStep& step) const = 0;
};

// NaN and infinity are the floats with an exponent of all ones. Branch-free, so that loops over it vectorise.
inline bool IsNotFinite(float value) {
  constexpr uint32_t kExponent = 0x7F800000;
  return (std::bit_cast<uint32_t>(value) & kExponent) == kExponent;
}

// Draws other initial values of the model, for the `drawn` flat of this name.
using DrawModel = std::function<StatusOr<std::shared_ptr<const Model>>(std::string_view flat)>;
// Version 0 of a run. INVALID_ARGUMENT: a variable of the model has the name of a flat, or a drawn model equals the
// model itself, because its initial values do not depend on the draw.
StatusOr<ServerState> FirstState(std::shared_ptr<const Model> model, const ServerOptimizer& optimizer,
                                 const DrawModel& draw = nullptr);
// DATA_LOSS: `state`, read from a file, lacks flats that `optimizer` needs.
Status CheckState(const ServerState& state, const ServerOptimizer& optimizer);
// The means of other parts than "delta", by name, in wire order.
using PartMeans = std::map<std::string, std::span<const float>, std::less<>>;
// Computes the version after `base`. `mean`: of trainable and shared elements; other tensors are the base's. An empty
// mean, or mean of a part without updates, counts as zero. INVALID_ARGUMENT: it is not as long as the model's update,
// or a part that the optimiser needs is missing or not as long as the model. FAILED_PRECONDITION: a result is not
// finite; names its tensor.
StatusOr<ServerState> NextState(const ServerState& base, const ServerOptimizer& optimizer, double learning_rate,
                                VersionMean&& mean, const PartMeans& parts = {}, const VersionSums& sums = {});

using ServerOptimizerFactory = StatusOr<std::unique_ptr<const ServerOptimizer>> (*)(const Settings& settings);
// Also registers the table ("server optimizer", name). CHECK fails if two have one name.
struct ServerOptimizerRegistration {
  ServerOptimizerRegistration(const char* name, std::vector<Setting> settings, ServerOptimizerFactory factory);
};
#define RIVULET_SERVER_OPTIMIZER(variable, ...) \
  [[maybe_unused]] static const ::rivulet::ServerOptimizerRegistration variable(__VA_ARGS__)

}  // namespace rivulet
