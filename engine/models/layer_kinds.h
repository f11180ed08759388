// The one table of layer kinds: parsing, error messages and the reference page derive from it. Adding a kind is an
// entry of layer_kinds.cc.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/layers/layers.h"
#include "engine/models/layer_list.h"

namespace rivulet {

struct LayerKey {
  enum class Type { kInteger, kNumber, kFlag, kText, kSizes };  // kSizes: one integer for all axes, or a list
  std::string name;
  Type type;
  std::string default_value;  // as TOML; empty: must be given
  std::string doc;
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();  // exclusive
  std::vector<std::string> choices = {};
};

// The values of one layer, checked against its kind's keys and completed by their defaults.
class LayerArgs {
 public:
  explicit LayerArgs(std::map<std::string, LayerValue, std::less<>> values) : values_(std::move(values)) {}
  int64_t integer(std::string_view key) const { return std::get<int64_t>(at(key)); }
  double number(std::string_view key) const { return std::get<double>(at(key)); }
  bool flag(std::string_view key) const { return std::get<bool>(at(key)); }
  const std::string& text(std::string_view key) const { return std::get<std::string>(at(key)); }
  // As many entries as there are axes: a list of one is repeated. A list of another length goes through as it is.
  std::vector<int64_t> sizes(std::string_view key, size_t axes) const {
    std::vector<int64_t> sizes = std::get<std::vector<int64_t>>(at(key));
    if (sizes.size() == 1) sizes.resize(axes, sizes[0]);
    return sizes;
  }

 private:
  const LayerValue& at(std::string_view key) const { return values_.find(key)->second; }
  std::map<std::string, LayerValue, std::less<>> values_;
};

struct LayerKind {
  std::string name;
  std::string prefix;  // of names that are not given: "conv" makes conv1, conv2, …
  std::string doc;
  std::vector<LayerKey> keys;
  // `other` is what the key "with" names, for the kinds that have it.
  std::function<Output(Layers& layers, const std::string& name, Output x, Output other, const LayerArgs& args)> build;
};

const std::vector<LayerKind>& LayerKinds();

}  // namespace rivulet
