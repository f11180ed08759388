// Models by name. A target of its own (engine_presets): a client links none of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/models/model_def.h"

namespace rivulet {

// "logistic_regression" (784-10, 7,850 parameters), "mlp" (784-200-200-10 ReLU, 199,210), "mnist_cnn" (conv5×5×32,
// pool, conv5×5×64, pool, 512, 10: 1,663,370; McMahan et al. 2017). Input image float32 [?,28,28,1] in [0,1], label
// int64 [?].
// "char_lstm" (embedding 8, two LSTMs of 256, 90 characters: 820,522; Reddi et al. 2021) and "tiny_transformer" (width 64,
// two blocks of 4 heads: 110,976): tokens and label int64 [?,80] of the vocabulary in engine/data/characters.h, padded
// with 0, which does not count.
// NOT_FOUND names the nearest.
StatusOr<ModelDef> Preset(std::string_view name);
std::vector<std::string> PresetNames();

}  // namespace rivulet
