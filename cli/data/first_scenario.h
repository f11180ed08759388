// The scenario that an import writes beside its records: a small runnable model as a starting point.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

struct FirstScenario {
  std::string folder;         // with train.tfrecord; scenario.toml is written there
  bool has_test = false;      // test.tfrecord exists too
  int64_t examples = 0;       // of the training set
  std::string key;            // the feature with the client's name; "": examples are dealt at random
  std::string input_feature;  // "": the model's default, or its inputs name theirs
  std::string model;          // the lines of [model] and below
  double learning_rate = 0.1;
  double largest_target = 0;  // magnitude of a numeric target, which weights must reach
};

// "[[model.layers]]" and the lines of a layer: LayerText({"type = \"dense\"", "units = 10"}).
std::string LayerText(const std::vector<std::string>& lines);
// A dense layer of so many units, the model's last.
std::string OutputLayer(int64_t units);
// The model of `channels` × height × width pixels with two convolutions.
std::string ImageModel(int64_t height, int64_t width, int64_t channels, int64_t classes);
// The model of one layer over so many numbers.
std::string LinearModel(int64_t numbers, int64_t classes);

// Writes FOLDER/scenario.toml and prints the command that runs it. An existing file is unchanged.
Status WriteFirstScenario(const FirstScenario& first);

}  // namespace rivulet
