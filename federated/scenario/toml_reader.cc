// The only file that sees the TOML library. Its exceptions end here.
#include <toml++/toml.h>

#include "federated/scenario/keys.h"

namespace rivulet::scenario {
namespace {

std::string At(const std::string& path, const toml::source_position& position) {
  return fmt::format("{}:{}:{}", path, position.line, position.column);
}

// A key that needs quotes in TOML keeps them here, so that "run.rounds" = 5 is not taken for run.rounds.
std::string KeyText(std::string_view key) {
  const bool bare =
      !key.empty() && key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
                          std::string_view::npos;
  return bare ? std::string(key) : TomlString(key);
}

Value ToValue(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::integer:
      return node.as_integer()->get();
    case toml::node_type::floating_point:
      return node.as_floating_point()->get();
    case toml::node_type::boolean:
      return node.as_boolean()->get();
    case toml::node_type::string:
      return node.as_string()->get();
    case toml::node_type::array: {
      std::vector<std::string> texts;
      for (const toml::node& item : *node.as_array()) {
        if (!item.is_string()) return Unusable{item.is_table() ? "an array of tables" : "an array of other things"};
        texts.push_back(item.as_string()->get());
      }
      return texts;
    }
    case toml::node_type::date:
      return Unusable{"a date"};
    case toml::node_type::time:
      return Unusable{"a time"};
    case toml::node_type::date_time:
      return Unusable{"a date and time"};
    default:
      return Unusable{"a table"};
  }
}

// `make` gives the entry of a node without its value.
template <typename Make>
void Flatten(const toml::table& table, const std::string& prefix, const Make& make, std::vector<Entry>& entries) {
  for (const auto& [key, node] : table) {
    Entry entry = make(prefix + KeyText(key.str()), &key, node);
    entry.is_table = node.is_table();
    entry.value = ToValue(node);
    const std::string name = entry.key;
    entries.push_back(std::move(entry));
    if (node.is_table()) Flatten(*node.as_table(), name + ".", make, entries);
  }
}

}  // namespace

StatusOr<std::vector<Entry>> ReadToml(const std::string& text, const std::string& path) {
  toml::table table;
  try {
    table = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return InvalidArgument("{}: {}", At(path, error.source().begin), error.description());
  } catch (const std::exception& error) {
    return InvalidArgument("{} is not TOML: {}", path, error.what());
  }
  std::vector<Entry> entries;
  const auto make = [&](std::string name, const toml::key* key, const toml::node& node) {
    const toml::source_position value = node.source().begin;
    // A dotted [table] header has no position of its own; its key has.
    return Entry{std::move(name), Unusable{}, false, At(path, value.line != 0 ? value : key->source().begin), false};
  };
  Flatten(table, "", make, entries);
  return entries;
}

std::vector<Entry> ReadOverride(const std::string& key, const std::string& value) {
  const auto make = [](std::string name, const toml::key*, const toml::node&) {
    return Entry{std::move(name), Unusable{}, false, "--set", true};
  };
  std::vector<Entry> entries;
  try {
    const toml::table parsed = toml::parse("value = " + value);
    if (parsed.size() == 1) {  // more: the text holds lines of its own, so it is no single value
      const toml::node& node = *parsed.get("value");
      Entry entry = make(key, nullptr, node);
      entry.is_table = node.is_table();
      entry.value = ToValue(node);
      entries.push_back(std::move(entry));
      if (node.is_table()) Flatten(*node.as_table(), key + ".", make, entries);
      return entries;
    }
  } catch (const std::exception&) {
    // Not TOML: a plain string, as promised.
  }
  entries.push_back(Entry{key, value, false, "--set", true});
  return entries;
}

}  // namespace rivulet::scenario
