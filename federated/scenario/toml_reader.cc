// The only file that uses the TOML library, and the boundary of its exceptions.
#include <toml++/toml.h>

#include <algorithm>
#include <new>
#include <optional>

#include "federated/scenario/keys.h"

namespace rivulet::scenario {
namespace {

std::string At(const std::string& path, const toml::source_position& position) {
  return fmt::format("{}:{}:{}", path, position.line, position.column);
}

// Limit of nested tables, by dots, braces or brackets. Scenarios need four; the library's parser and the traversal of
// its result are recursive, and the stack is limited.
constexpr size_t kMostNested = 64;

// Returns the index of the last character of the string that starts at `begin`.
size_t EndOfString(std::string_view text, size_t begin) {
  const char quote = text[begin];
  const std::string three(3, quote);
  const bool lines = text.substr(begin).starts_with(three);
  for (size_t i = begin + (lines ? 3 : 1); i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (lines && text.substr(i).starts_with(three)) {
      // Up to two quotes before the closing three belong to the string.
      return std::min(text.find_first_not_of(quote, i), std::min(i + 5, text.size())) - 1;
    } else if (!lines && (text[i] == quote || text[i] == '\n')) {
      return i;
    }
  }
  return text.size();
}

// Whether `text` nests deeper than that, judged by dots and brackets outside strings and comments. Invalid TOML may be
// misjudged, but is refused in any case.
bool NestsTooDeep(std::string_view text) {
  std::vector<size_t> open;  // dots before each open bracket
  size_t dots = 0, depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '"' || c == '\'') {
      i = EndOfString(text, i);
    } else if (c == '.') {
      ++dots;
    } else if (c == '{' || c == '[') {
      open.push_back(dots + 1);
      depth += dots + 1;
      dots = 0;
    } else if (c == '}' || c == ']') {
      if (!open.empty()) {
        depth -= open.back();
        open.pop_back();
      }
      dots = 0;
    } else if (c == ',' || (c == '\n' && open.empty())) {
      dots = 0;
    }
    if (depth + dots > kMostNested) return true;
  }
  return false;
}

// Keeps the quotes of a key that needs them in TOML, so that "run.rounds" = 5 is not read as run.rounds.
std::string KeyText(std::string_view key) {
  const bool bare =
      !key.empty() && key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
                          std::string_view::npos;
  return bare ? std::string(key) : TomlString(key);
}

// A table of plain values, such as a layer; nullopt if it has other values. Keys keep their quotes.
std::optional<LayerSpec> ToLayer(const toml::table& table) {
  LayerSpec layer;
  for (const auto& [key, node] : table) {
    const std::string name = KeyText(key.str());
    if (const auto* integer = node.as_integer()) {
      layer[name] = integer->get();
    } else if (const auto* real = node.as_floating_point()) {
      layer[name] = real->get();
    } else if (const auto* flag = node.as_boolean()) {
      layer[name] = flag->get();
    } else if (const auto* text = node.as_string()) {
      layer[name] = text->get();
    } else if (const auto* array = node.as_array()) {
      std::vector<int64_t> numbers;
      for (const toml::node& item : *array) {
        if (!item.is_integer()) return std::nullopt;
        numbers.push_back(item.as_integer()->get());
      }
      layer[name] = std::move(numbers);
    } else {
      return std::nullopt;
    }
  }
  return layer;
}

Value ToArray(const toml::array& array) {
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  std::vector<LayerSpec> tables;
  for (const toml::node& item : array) {
    if (const auto* text = item.as_string()) texts.push_back(text->get());
    if (const auto* number = item.as_integer()) numbers.push_back(number->get());
    if (const auto* table = item.as_table()) {
      std::optional<LayerSpec> layer = ToLayer(*table);
      if (!layer.has_value())
        return UnsupportedValue{
            "an array of tables with other things than numbers, strings and lists of integers in them"};
      tables.push_back(*std::move(layer));
    }
  }
  if (texts.size() == array.size()) return texts;
  if (numbers.size() == array.size()) return numbers;
  if (tables.size() == array.size()) return tables;
  std::vector<double> decimals;
  for (const toml::node& item : array)
    if (const std::optional<double> number = item.value<double>(); item.is_number() && number)
      decimals.push_back(*number);
  if (decimals.size() == array.size()) return UnsupportedValue{"an array of decimals", std::move(decimals)};
  return UnsupportedValue{"an array of other things"};
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
    case toml::node_type::array:
      return ToArray(*node.as_array());
    case toml::node_type::date:
      return UnsupportedValue{"a date"};
    case toml::node_type::time:
      return UnsupportedValue{"a time"};
    case toml::node_type::date_time:
      return UnsupportedValue{"a date and time"};
    default:
      return UnsupportedValue{"a table"};
  }
}

// `make` creates the entry of a node without its value.
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
  if (NestsTooDeep(text))
    return InvalidArgument("{} has tables or arrays in each other more than {} deep; no scenario needs that", path,
                           kMostNested);
  toml::table table;
  try {
    table = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return InvalidArgument("{}: {}", At(path, error.source().begin), error.description());
  } catch (const std::bad_alloc&) {
    throw;  // unrelated to the text
  } catch (const std::exception& error) {
    return InvalidArgument("{} is not TOML: {}", path, error.what());
  }
  std::vector<Entry> entries;
  const auto make = [&](std::string name, const toml::key* key, const toml::node& node) {
    const toml::source_position value = node.source().begin;
    // A dotted [table] header has no position; use its key's.
    return Entry{std::move(name), UnsupportedValue{}, false, At(path, value.line != 0 ? value : key->source().begin),
                 false};
  };
  Flatten(table, "", make, entries);
  return entries;
}

std::vector<Entry> ReadOverride(const std::string& key, const std::string& value) {
  const auto make = [](std::string name, const toml::key*, const toml::node&) {
    return Entry{std::move(name), UnsupportedValue{}, false, "--set", true};
  };
  std::vector<Entry> entries;
  try {
    // Too deep for any key: read as a plain string, which its key's type refuses.
    const toml::table parsed = NestsTooDeep(value) ? toml::table() : toml::parse("value = " + value);
    if (parsed.size() == 1) {  // more: the text contains further lines, so it is not one value
      const toml::node& node = *parsed.get("value");
      Entry entry = make(key, nullptr, node);
      entry.is_table = node.is_table();
      entry.value = ToValue(node);
      entries.push_back(std::move(entry));
      if (node.is_table()) Flatten(*node.as_table(), key + ".", make, entries);
      return entries;
    }
  } catch (const std::bad_alloc&) {
    throw;  // out of memory must not turn a number into a string
  } catch (const std::exception&) {
    // Not TOML: a plain string, as documented.
  }
  entries.push_back(Entry{key, value, false, "--set", true});
  return entries;
}

}  // namespace rivulet::scenario
