#include "setup/partition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "engine/base/math.h"
#include "engine/base/nearest.h"
#include "federated/random/streams.h"

namespace rivulet {
namespace {

// One stream, split by what is drawn, so that no kind depends on how many draws another needs.
enum PartitionOp : uint32_t { kDealExamples = 0, kDealShards = 1, kProportions = 2, kClassOrder = 3, kPick = 4 };

Draws DrawsFor(uint64_t seed, PartitionOp op) { return Draws(StreamFor(seed, "", Purpose::kPartition), op); }

// Where part `i` of `parts` begins when `n` things are cut as evenly as whole numbers allow.
int64_t Cut(int64_t n, int64_t i, int64_t parts) { return n / parts * i + std::min(i, n % parts); }

StatusOr<std::vector<int64_t>> ReadLabels(const Dataset& data, const std::string& feature) {
  std::vector<int64_t> labels(static_cast<size_t>(data.size()));
  std::string record;
  for (int64_t i = 0; i < data.size(); ++i) {
    RIVULET_RETURN_IF_ERROR(data.Read(i, record));
    const Status found = FindInt64Feature(record, feature, &labels[static_cast<size_t>(i)]);
    if (!found.ok()) return Annotate(found, data.Where(i));
  }
  return labels;
}

// What is dealt is the arena: it is cut where it lies.
Shares PartitionIid(int64_t examples, int64_t clients, uint64_t seed) {
  Draws draws = DrawsFor(seed, kDealExamples);
  std::vector<uint32_t> order = Permutation(draws, static_cast<uint32_t>(examples));
  std::vector<uint64_t> ends(static_cast<size_t>(clients));
  for (size_t i = 0; i < ends.size(); ++i) {
    ends[i] = static_cast<uint64_t>(Cut(examples, static_cast<int64_t>(i) + 1, clients));
  }
  return Shares::OfNumbered(std::move(ends), std::move(order));
}

StatusOr<Shares> PartitionShards(const Dataset& data, const PartitionConfig& config, const std::string& label_feature,
                                 uint64_t seed) {
  const int64_t per_client = config.shards_per_client;
  if (per_client < 1) return InvalidArgument("data.partition.shards_per_client is {}; give at least 1", per_client);
  if (per_client > data.size() / config.clients) {
    return InvalidArgument(
        "{} clients × {} shards need more than the {} examples of data.train; lower "
        "data.partition.clients or data.partition.shards_per_client",
        config.clients, per_client, data.size());
  }
  const int64_t shards = config.clients * per_client;
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadLabels(data, label_feature));
  std::vector<uint32_t> by_label(labels.size());
  std::iota(by_label.begin(), by_label.end(), 0u);
  std::stable_sort(by_label.begin(), by_label.end(), [&](uint32_t a, uint32_t b) { return labels[a] < labels[b]; });
  Draws draws = DrawsFor(seed, kDealShards);
  const std::vector<uint32_t> dealt = Permutation(draws, static_cast<uint32_t>(shards));
  std::vector<uint64_t> ends;
  ends.reserve(static_cast<size_t>(config.clients));
  std::vector<uint32_t> examples;
  examples.reserve(by_label.size());
  int64_t hands = 0;
  for (const uint32_t shard : dealt) {
    examples.insert(examples.end(), by_label.begin() + Cut(data.size(), shard, shards),
                    by_label.begin() + Cut(data.size(), shard + 1, shards));
    if (++hands % per_client == 0) ends.push_back(examples.size());
  }
  return Shares::OfNumbered(std::move(ends), std::move(examples));
}

// The logarithm of a Gamma(shape, 1) variate (Marsaglia and Tsang 2000). Logarithms, because for a small shape the
// variates themselves are below the smallest double: Gamma(a) = Gamma(a + 1) × U^(1/a).
double LogGamma(double shape, Draws& draws) {
  double boost = 0;
  if (shape < 1) {
    boost = math::Log(1 - draws.Uniform()) / shape;
    shape += 1;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = draws.Normal();
    const double base = 1 + c * x;
    if (base <= 0) continue;
    const double v = base * base * base;
    if (math::Log(1 - draws.Uniform()) < 0.5 * x * x + d - d * v + d * math::Log(v)) return math::Log(d * v) + boost;
  }
}

StatusOr<Shares> PartitionDirichlet(const Dataset& data, const PartitionConfig& config,
                                    const std::string& label_feature, uint64_t seed) {
  if (!(config.alpha > 0) || !std::isfinite(config.alpha)) {
    return InvalidArgument("data.partition.alpha is {}; give a number above 0", config.alpha);
  }
  RIVULET_ASSIGN_OR_RETURN(const std::vector<int64_t> labels, ReadLabels(data, label_feature));
  std::map<int64_t, std::vector<uint32_t>> by_label;
  for (size_t i = 0; i < labels.size(); ++i) by_label[labels[i]].push_back(static_cast<uint32_t>(i));
  // Each class is a shuffled pile; a client takes from its end.
  std::vector<std::vector<uint32_t>> piles;
  Draws shuffle = DrawsFor(seed, kClassOrder);
  for (const auto& [label, members] : by_label) {
    const std::vector<uint32_t> order = Permutation(shuffle, static_cast<uint32_t>(members.size()));
    std::vector<uint32_t>& pile = piles.emplace_back();
    for (const uint32_t position : order) pile.push_back(members[position]);
  }
  Draws proportions = DrawsFor(seed, kProportions), pick = DrawsFor(seed, kPick);
  std::vector<uint64_t> ends(static_cast<size_t>(config.clients));
  std::vector<uint32_t> examples;
  examples.reserve(labels.size());
  std::vector<double> weights(piles.size());
  for (int64_t client = 0; client < config.clients; ++client) {
    for (double& weight : weights) weight = LogGamma(config.alpha, proportions);
    const double largest = *std::max_element(weights.begin(), weights.end());
    for (double& weight : weights) weight = math::Exp(weight - largest);
    const auto end = static_cast<uint64_t>(Cut(data.size(), client + 1, config.clients));
    ends[static_cast<size_t>(client)] = end;
    while (examples.size() < end) {
      double total = 0;
      for (size_t label = 0; label < piles.size(); ++label) total += piles[label].empty() ? 0 : weights[label];
      if (!(total > 0)) {
        // What this client wants is gone: it takes what is left in proportion to how much of it there is.
        for (size_t label = 0; label < piles.size(); ++label) weights[label] = static_cast<double>(piles[label].size());
        continue;
      }
      double at = pick.Uniform() * total;
      size_t chosen = piles.size();
      for (size_t label = 0; label < piles.size(); ++label) {
        if (piles[label].empty() || weights[label] == 0) continue;
        chosen = label;  // the last candidate also takes what rounding leaves over
        at -= weights[label];
        if (at < 0) break;
      }
      examples.push_back(piles[chosen].back());
      piles[chosen].pop_back();
    }
  }
  return Shares::OfNumbered(std::move(ends), std::move(examples));
}

bool IsUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xC2 && lead < 0xE0 ? 2
                          : (lead & 0xF0) == 0xE0       ? 3
                          : lead >= 0xF0 && lead < 0xF5 ? 4
                                                        : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<uint8_t>(text[i + k]) & 0xC0) != 0x80) return false;
    }
    if (length >= 3) {  // overlong forms, surrogates, and beyond U+10FFFF
      const auto second = static_cast<uint8_t>(text[i + 1]);
      if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) || (lead == 0xF0 && second < 0x90) ||
          (lead == 0xF4 && second >= 0x90)) {
        return false;
      }
    }
    i += length;
  }
  return true;
}

std::string FileNameOf(std::string_view key) {
  const bool utf8 = IsUtf8(key);
  std::string id;
  for (size_t i = 0; i < key.size(); ++i) {
    const auto byte = static_cast<uint8_t>(key[i]);
    const bool unsafe = byte < 0x20 || byte == 0x7F || byte == '/' || byte == '\\' || byte == '%' ||
                        (byte == '.' && i == 0) || (byte >= 0x80 && !utf8);
    if (unsafe) {
      id += fmt::format("%{:02X}", byte);
    } else {
      id += key[i];
    }
  }
  return id;
}

// Keys of all examples, one after the other; sorting their numbers by key, and where keys are equal by number, gives
// each client's examples side by side and in their order.
StatusOr<Shares> PartitionByKey(const Dataset& data, const PartitionConfig& config) {
  std::string keys, record;
  std::vector<uint64_t> ends;  // of each example's key
  ends.reserve(static_cast<size_t>(data.size()));
  for (int64_t i = 0; i < data.size(); ++i) {
    RIVULET_RETURN_IF_ERROR(data.Read(i, record));
    std::string_view bytes;
    std::string decimal;
    const Status found = FindBytesFeature(record, config.key, &bytes);
    if (int64_t number = 0; !found.ok()) {
      if (!FindInt64Feature(record, config.key, &number).ok()) return Annotate(found, data.Where(i));
      bytes = decimal = fmt::format("{}", number);
    }
    if (bytes.empty() || bytes.size() > 128) {
      return InvalidArgument("{}: the value of '{}' has {} bytes and cannot name a client; give 1 to 128",
                             data.Where(i), config.key, bytes.size());
    }
    keys.append(bytes);
    ends.push_back(keys.size());
  }
  const auto key = [&](uint32_t example) {
    const uint64_t begin = example == 0 ? 0 : ends[example - 1];
    return std::string_view(keys).substr(begin, ends[example] - begin);
  };
  std::vector<uint32_t> examples(ends.size());
  std::iota(examples.begin(), examples.end(), 0u);
  std::sort(examples.begin(), examples.end(), [&](uint32_t a, uint32_t b) {
    const int order = key(a).compare(key(b));
    return order != 0 ? order < 0 : a < b;
  });
  // A name need not stand where its key does: '%' is before what it stands for, or behind.
  struct Group {
    std::string name;
    uint64_t begin, end;
  };
  std::vector<Group> groups;
  for (size_t begin = 0, end = 0; begin < examples.size(); begin = end) {
    while (end < examples.size() && key(examples[end]) == key(examples[begin])) ++end;
    groups.push_back({FileNameOf(key(examples[begin])), begin, end});
  }
  const auto known = static_cast<int64_t>(groups.size());
  if (config.clients > known) {
    return InvalidArgument(
        "data.partition.clients is {}, but '{}' has only {} values; lower it, or leave it out to take all",
        config.clients, config.key, known);
  }
  if (config.clients > 0) groups.erase(groups.begin() + config.clients, groups.end());
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.name < b.name; });
  std::vector<std::string> names;
  std::vector<uint64_t> cuts;
  std::vector<uint32_t> arena;
  arena.reserve(examples.size());
  for (Group& group : groups) {
    arena.insert(arena.end(), examples.begin() + static_cast<std::ptrdiff_t>(group.begin),
                 examples.begin() + static_cast<std::ptrdiff_t>(group.end));
    names.push_back(std::move(group.name));
    cuts.push_back(arena.size());
  }
  return Shares::OfNamed(std::move(names), std::move(cuts), std::move(arena));
}

}  // namespace

StatusOr<Shares> Partition(const Dataset& data, const PartitionConfig& config, const std::string& label_feature,
                           uint64_t seed) {
  static const std::vector<std::string> kinds = {"iid", "shards", "dirichlet", "by_key"};
  if (std::find(kinds.begin(), kinds.end(), config.kind) == kinds.end()) {
    return InvalidArgument("data.partition.kind is '{}'; it must be iid, shards, dirichlet or by_key.{}", config.kind,
                           DidYouMean(config.kind, kinds));
  }
  if (data.size() > std::numeric_limits<uint32_t>::max()) {
    return InvalidArgument("data.train has {} examples; a partition counts at most {}", data.size(),
                           std::numeric_limits<uint32_t>::max());
  }
  if (data.size() == 0) return InvalidArgument("data.train has no examples to divide over clients");
  if (config.kind == "by_key") {
    if (config.clients < 0) return InvalidArgument("data.partition.clients is {}; give at least 1", config.clients);
    return PartitionByKey(data, config);
  }
  if (config.clients < 1) {
    return InvalidArgument("data.partition.clients is {}; kind = '{}' needs at least 1", config.clients, config.kind);
  }
  if (data.size() < config.clients) {
    return InvalidArgument(
        "data.train has {} examples for {} clients, so that some would be empty; lower "
        "data.partition.clients",
        data.size(), config.clients);
  }
  if (config.kind == "shards") return PartitionShards(data, config, label_feature, seed);
  if (config.kind == "dirichlet") return PartitionDirichlet(data, config, label_feature, seed);
  return PartitionIid(data.size(), config.clients, seed);
}

}  // namespace rivulet
