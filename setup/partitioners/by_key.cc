// One client for every value of a feature: writers, speakers, hospitals.
#include <algorithm>
#include <numeric>

#include "engine/base/utf8.h"
#include "federated/settings/traits.h"
#include "setup/partitioners/partitioner.h"

namespace rivulet {
namespace {

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

// The keys of all examples, one after the other. Sorting the examples' numbers by key, and by number if keys are equal,
// gives each client's examples together and in order.
StatusOr<Shares> PartitionByKey(const PartitionRequest& request) {
  const auto& [data, clients, settings, given, label_feature, seed] = request;
  const std::string& feature = settings.text("key");
  std::string keys, record;
  std::vector<uint64_t> ends;  // of each example's key
  ends.reserve(static_cast<size_t>(data.size()));
  for (int64_t i = 0; i < data.size(); ++i) {
    RIVULET_RETURN_IF_ERROR(data.Read(i, record));
    std::string_view bytes;
    std::string decimal;
    const Status found = FindBytesFeature(record, feature, &bytes);
    if (int64_t number = 0; !found.ok()) {
      if (!FindInt64Feature(record, feature, &number).ok()) return Annotate(found, data.Where(i));
      bytes = decimal = fmt::format("{}", number);
    }
    if (bytes.empty() || bytes.size() > 128) {
      return InvalidArgument("{}: the value of '{}' has {} bytes and cannot name a client; give 1 to 128",
                             data.Where(i), feature, bytes.size());
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
  // Names may sort differently from keys: '%' comes before or after the character that it replaces.
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
  if (clients > known) {
    return InvalidArgument(
        "data.partition.clients is {}, but '{}' has only {} values; lower it, or leave it out to take all", clients,
        feature, known);
  }
  if (clients > 0) groups.erase(groups.begin() + clients, groups.end());
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

RIVULET_PARTITIONER(by_key_registration,
                    {.name = "by_key",
                     .doc = "makes a client of every value of a feature",
                     .settings = {WithExample(Text("key", "writer", "Feature whose values are the clients."),
                                              "\"author\"")},
                     .divide = PartitionByKey,
                     .traits = {kCountsClients}});

}  // namespace
}  // namespace rivulet
