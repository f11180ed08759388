// Names of a rule graph's variables, settings and targets. Variables have the names of a plan's flat variables, except
// that values kept from step to step have a separate prefix.
#pragma once

namespace rivulet {

inline constexpr char kMemoryPrefix[] = "memory/";     // a vector of the rule, one of the plan's slots
inline constexpr char kSettingPrefix[] = "settings/";  // a float64 constant: the setting's default
inline constexpr char kRateInput[] = "learning_rate";  // a float64 placeholder: client.optimizer.learning_rate
inline constexpr char kGradientOutput[] = "gradient";  // the gradient for the optimiser
inline constexpr char kLossOutput[] = "loss";          // a float64 number, added to the loss
inline constexpr char kStepTarget[] = "step";          // depends on the assignments of a step
inline constexpr char kEndTarget[] = "end";            // depends on the assignments after the last step

}  // namespace rivulet
