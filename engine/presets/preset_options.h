// Default options shared by presets.
#pragma once

#include <utility>
#include <vector>

#include "engine/models/classifier.h"
#include "engine/presets/presets.h"

namespace rivulet {

inline int64_t ClassesOr(const PresetOptions& options, int64_t usual) {
  return options.classes == 0 ? usual : options.classes;
}

inline ClassifierOptions InputOr(const PresetOptions& options, std::vector<int64_t> usual) {
  ClassifierOptions classifier;
  classifier.input = options.input.empty() ? std::move(usual) : options.input;
  if (!options.loss.empty()) classifier.loss = options.loss;
  classifier.loss_settings = options.loss_settings;
  classifier.metrics = options.metrics;
  return classifier;
}

}  // namespace rivulet
