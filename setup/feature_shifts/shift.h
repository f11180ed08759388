// A kind of feature shift, which transforms a client's recorded features: its name, options and code, in one registered
// file.
//
//   RIVULET_FEATURE_SHIFT(noise_registration, {.name = "noise", .doc = "adds …", .settings = {…}, …});
//
// The options are keys of [data.shift]; parsing, ranges, messages and docs/reference/scenario.md follow from them.
// Reading the registry is thread-safe once main has begun.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/draws.h"
#include "engine/base/setting.h"
#include "engine/base/status.h"
#include "engine/models/model_def.h"
#include "federated/settings/setting_tables.h"

namespace rivulet {

struct ShiftRequest {
  const Settings& settings;    // the law's own options
  int64_t groups;              // at least 1
  const std::string& feature;  // of the examples
  const ModelInput& input;     // the input it feeds: pixels or floats
  uint64_t seed;
};

// A transformation of a client's features. Immutable, thread-safe.
class ShiftLaw {
 public:
  virtual ~ShiftLaw() = default;
  // Changes the values of one example, bytes as byte / 255, to those that a client of `group` = 0 .. groups - 1
  // has.
  virtual void Apply(int64_t group, int64_t example, std::span<float> values) const = 0;
};

struct FeatureShiftKind {
  std::string name;
  std::string doc;  // completes "`name` …" in the reference: "turns images (rotated MNIST)"
  std::vector<Setting> settings = {};
  // INVALID_ARGUMENT: an input that does not fit the law.
  StatusOr<std::unique_ptr<ShiftLaw>> (*create)(const ShiftRequest& request) = nullptr;
  // "rotation by 0 to 270 degrees": the visible effect, for people.
  std::string (*text)(const Settings& settings, int64_t groups) = nullptr;
};

// INVALID_ARGUMENT lists the kinds and the nearest.
StatusOr<const FeatureShiftKind*> FindFeatureShift(const std::string& name);

// Registers the table ("feature shift", name) too. A check fails if two have one name.
struct FeatureShiftRegistration {
  explicit FeatureShiftRegistration(FeatureShiftKind kind);
};
#define RIVULET_FEATURE_SHIFT(variable, ...) \
  [[maybe_unused]] static const ::rivulet::FeatureShiftRegistration variable(::rivulet::FeatureShiftKind __VA_ARGS__)

// The option "amount", the strength of every law.
Setting ShiftAmount(double usual, double most, std::string doc, std::string example);

// Random draws for one example or one group alone.
Draws ShiftDraws(uint64_t seed, int64_t which);

// INVALID_ARGUMENT: the input is no image [height, width, channels]; `does` completes "data.shift.kind = … …".
Status CheckImage(const ShiftRequest& request, std::string_view kind, std::string_view does);

}  // namespace rivulet
