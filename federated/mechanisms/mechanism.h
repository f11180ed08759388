// A mechanism: modifies the values of an update before it leaves its client, or the mean of a version before the
// server's step (mean_mechanisms.h). It is a loop over flat spans. Each mechanism is one registered file with its table
// of settings.
//
//   class Clip final : public Mechanism { Status Apply(…) const override; };
//   RIVULET_MECHANISM(clip_registration, "clip", {Float("norm", …)}, CreateClip);
//
// Lookups are thread-safe once main has started; registrations run before.
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
  // NOT_FOUND names the nearest mechanism; INVALID_ARGUMENT as Settings::Read.
  static StatusOr<std::unique_ptr<const Mechanism>> Create(const PieceSpec& piece);
  // Changes the values of one update, or of one mean, given as all its parts. `draws`: a stream used by this task or
  // version alone. `declared`: the client's scalars, which it may read and extend; empty for a mean. Values that are
  // not finite stay so, and the aggregation refuses them. INTERNAL: the system gives no randomness. INVALID_ARGUMENT: a
  // scalar that this mechanism needs is not declared.
  virtual Status Apply(std::span<const std::span<float>> parts, Draws& draws, Scalars& declared) const = 0;
  // Returns true if equal values and draws give equal results; false if it draws from the system's generator.
  virtual bool repeatable() const { return true; }
  // This mechanism as a ScalingMechanism if it multiplies all values by one number; else null.
  virtual const ScalingMechanism* scaling() const { return nullptr; }
};

// Whether all of `mechanisms` are repeatable. One that is not known here is taken for repeatable: no update passes it.
bool AreRepeatable(std::span<const PieceSpec> mechanisms);

using MechanismFactory = std::unique_ptr<const Mechanism> (*)(const Settings& settings);
// Also registers the table ("mechanism", name). CHECK fails if two have one name.
struct MechanismRegistration {
  MechanismRegistration(const char* name, std::vector<Setting> settings, MechanismFactory factory);
};
#define RIVULET_MECHANISM(variable, ...) \
  [[maybe_unused]] static const ::rivulet::MechanismRegistration variable(__VA_ARGS__)

}  // namespace rivulet
