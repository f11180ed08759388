// A convolution without bias, a normalisation and an activation: the building block of deep image models.
#pragma once

#include <string>
#include <string_view>

#include "engine/layers/layers.h"

namespace rivulet {

// Kinds: "batch", "group" (8 groups, Wu and He, ECCV 2018), or "none", which gives the convolution a bias.
struct Normalization {
  std::string kind = "batch";

  Output Convolution(Layers& layers, const std::string& name, Output x, int64_t filters, ConvolutionOptions options,
                     std::string_view activation) const {
    options.bias = kind == "none";
    return Finish(layers, name, layers.Conv2D(name, x, filters, options), activation);
  }
  Output Depthwise(Layers& layers, const std::string& name, Output x, ConvolutionOptions options,
                   std::string_view activation) const {
    options.bias = kind == "none";
    return Finish(layers, name, layers.DepthwiseConv2D(name, x, 1, options), activation);
  }

 private:
  Output Finish(Layers& layers, const std::string& name, Output x, std::string_view activation) const {
    if (kind == "batch") x = layers.BatchNorm(name + "_norm", x);
    if (kind == "group") x = layers.GroupNorm(name + "_norm", x, 8);
    return activation.empty() ? x : layers.Activation(name + "_" + std::string(activation), x, activation);
  }
};

}  // namespace rivulet
