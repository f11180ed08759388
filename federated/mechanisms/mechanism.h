// A mechanism: modifies the values of an update before it leaves its client, or the mean of a version before the
// server's step (mean_mechanisms.h). It is a pure loop over flat spans. One registered file a mechanism, with its table
// of settings.
//
//   class Clip final : public Mechanism { Status Apply(…) const override; };
//   RIVULET_MECHANISM(clip_registration, "clip", {Float("norm", …)}, CreateClip);
//
// Reading the registry is thread-safe once main has begun.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/base/draws.h"
#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "federated/settings/piece.h"
#include "federated/tasks/task.h"

namespace rivulet {

class ScalingMechanism;  // federated/mechanisms/scaling.h

// Immutable, thread-safe.
class Mechanism {
 public:
  virtual ~Mechanism() = default;
  // NOT_FOUND names the nearest; INVALID_ARGUMENT as Settings::Read.
  static StatusOr<std::unique_ptr<const Mechanism>> Create(const PieceSpec& piece);
  // Changes the values of one update, or of one mean, all its parts together. `draws`: the task's or the version's own
  // stream, of nobody else. `declared`: what the client says beside the update, to be read and added to; nothing of a
  // mean. Values that are not finite stay so: whoever folds refuses them. INTERNAL: the system gives no randomness.
  // INVALID_ARGUMENT: the task declares nothing of what this needs.
  virtual Status Apply(std::span<const std::span<float>> parts, Draws& draws, Scalars& declared) const = 0;
  // Whether the same values and draws give the same once more; not so what draws from the system.
  virtual bool repeatable() const { return true; }
  // This, of one that only multiplies all values by one number; else null.
  virtual const ScalingMechanism* scaling() const { return nullptr; }
};

// Whether all of `mechanisms` are repeatable. One that is not known here is taken for repeatable: no update passes it.
bool AreRepeatable(std::span<const PieceSpec> mechanisms);

using MechanismFactory = std::unique_ptr<const Mechanism> (*)(const Settings& settings);
// Registers the table ("mechanism", name) too. A check fails where two have one name.
struct MechanismRegistration {
  MechanismRegistration(const char* name, std::vector<Setting> settings, MechanismFactory factory);
};
#define RIVULET_MECHANISM(variable, ...) \
  [[maybe_unused]] static const ::rivulet::MechanismRegistration variable(__VA_ARGS__)

}  // namespace rivulet
