// An attack by malicious clients of a simulation: one registered file each, with its settings. An attack changes an
// attacker's training data, its update, or both; simulations/attacks/adversaries.h selects the attackers. Programs of
// real clients do not link it.
//
//   RIVULET_ATTACK("sign_flip", {Float("scale", 1.0, "…").Above(0)}, CreateSignFlip);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/draws.h"
#include "engine/base/setting.h"
#include "engine/base/status.h"

namespace rivulet {

// Mean and deviation, by value, of the attackers' benign updates: the colluding attackers' estimate of all
// updates.
struct BenignUpdates {
  std::vector<double> mean, deviation;
};

// An attack with its settings. Immutable, so thread-safe.
class Attack {
 public:
  // Names of the data's features.
  struct Features {
    std::string image = "image", label = "label";
  };
  using BenignFn = std::function<StatusOr<std::shared_ptr<const BenignUpdates>>()>;

  virtual ~Attack() = default;

  // Whether Poison must be called.
  virtual bool poisons_data() const { return false; }
  // `example` is a serialized tf.train.Example; `draws` belong to it, and are the same at every read. INVALID_ARGUMENT:
  // the attack cannot change this example.
  virtual Status Poison(std::string& example, Draws draws) const;

  // Whether Show must be called: the attack teaches the model a behaviour that Show can test.
  virtual bool shows() const { return false; }
  // Turns a test example into the attacker's input, with the attacker's wanted label; draws nothing. False: the example
  // is left out, because it already has that label. Errors as Poison.
  virtual StatusOr<bool> Show(std::string& example) const;

  // Whether Change must be called.
  virtual bool changes_updates() const { return false; }
  // Whether the draws of Change depend on the client alone, the same in every task (canary.h), not on the task.
  virtual bool keeps_to_client() const { return false; }
  // Attackers that train for BenignUpdates, once more for each attacked model; 0: none.
  virtual int64_t colluders() const { return 0; }
  // `delta` is the model's change by the client's own training; `draws` belong to this client and task, or to the
  // client alone with keeps_to_client.
  virtual Status Change(std::span<float> delta, Draws draws, const BenignFn& benign) const;

  // NOT_FOUND: no such attack (names the nearest). INVALID_ARGUMENT: unknown settings, or values out of range.
  static StatusOr<std::unique_ptr<const Attack>> Create(std::string_view name, const SettingValues& settings,
                                                        Features features);
};

using AttackFactory = std::unique_ptr<const Attack> (*)(const Settings& settings, Attack::Features features);
struct AttackRegistration {
  AttackRegistration(const char* name, std::vector<Setting> settings, AttackFactory factory);
};
#define RIVULET_ATTACK(name, ...)                                                                            \
  [[maybe_unused]] static const ::rivulet::AttackRegistration RIVULET_CONCAT_(rivulet_attack_, __COUNTER__)( \
      name, __VA_ARGS__)

}  // namespace rivulet
