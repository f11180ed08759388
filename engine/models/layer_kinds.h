// The table of layer kinds, the single source of parsing, error messages and the reference page. A new kind is an entry
// of layer_kinds.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/base/setting.h"
#include "engine/layers/layers.h"

namespace rivulet {

struct LayerKind {
  std::string name;
  std::string prefix;  // prefix of default names: "conv" makes conv1, conv2, …
  std::string doc;
  std::vector<Setting> keys;
  // `other` is the output named by the key "with", for kinds that have this key.
  std::function<Output(Layers& layers, const std::string& name, Output x, Output other, const Settings& args)> build;
};

const std::vector<LayerKind>& LayerKinds();

}  // namespace rivulet
